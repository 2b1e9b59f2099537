"""The client app of a run's bundle, which Flower demands; `fedsift join` never runs it.

At a site that runs Flower's own SuperNode it says what to do instead.
"""

from __future__ import annotations

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query()
def refuse(message: Message, context: Context) -> Message:  # noqa: ARG001
    """Refuse: the site's data are behind a process of its own."""
    raise RuntimeError("this site runs Flower's SuperNode; start `fedsift join` instead")
