"""The executor of a site's SuperNode: takes its tasks, asks the site's process, sends the replies.

    python -m fedsift.flower.relay ADDRESS SECRET_FILE

One process that stays, without torch. It runs nothing but what is installed here, whatever the
server sends: the client app in the run's bundle is ignored, and the one in ``client_app`` is used.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from fedsift.flower.client_app import forward
from fedsift.flower.compat import TaskQueue

POLL = 0.1  # seconds between two requests for a task
RETRY = 1.0  # seconds; the SuperNode is starting, or is being started again


def main(address: str, secret: Path) -> None:
    """Process the SuperNode's tasks until terminated."""
    tasks = TaskQueue(address, secret)
    while True:
        try:
            token = tasks.acquire()
        except ConnectionError:
            time.sleep(RETRY)
            continue
        if token is not None:
            tasks.process(token, forward)
        time.sleep(POLL)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
