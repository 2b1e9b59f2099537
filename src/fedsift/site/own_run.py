"""One run at a site that serves a problem of its owner (``problem/own_problem.py``).

The server announces what its problem looks like: lengths, shapes, what is private. The site builds
nothing by that; it compares it with its owner's problem, and refuses another. At the end it keeps

    <run>/solution.safetensors    x and y of the server, and what of x and y is the site's own
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from fedsift import sealed
from fedsift.algorithms.registry import METHODS
from fedsift.client import Client, ClientState, initial_state
from fedsift.client.guard import Guard
from fedsift.errors import InputError, Refused
from fedsift.federation.encoding import Kept
from fedsift.problem.own_problem import description
from fedsift.problem.protocol import y_is_private
from fedsift.randomness import derive
from fedsift.site.journal import Journal
from fedsift.site.run import SiteData

OWN = ("x", "own_y")  # of a client's state


class OwnRun:
    """A run of the owner's problem; ``secret`` is what its batches are drawn with."""

    def __init__(self, data: SiteData, folder: Path, secret: str = "") -> None:
        assert data.own is not None
        self.folder, self.device = folder, data.device
        self.settings = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        start, own, method = data.own.start(), data.own, self.settings["method"]
        personal = y_is_private(start.problem)
        self.guard = Guard(data.policy, method, personal=personal)
        if not METHODS[method].general:
            raise Refused(f"the site serves a problem of its owner and '{method}' solves no other")
        _check_same(self.settings["problem"], start, has_outer=own.validation is not None)
        if len(start.y) > data.policy.most_parameters:
            raise Refused(f"the site's policy allows {data.policy.most_parameters} numbers in y")
        seed = self.settings["seed"]
        seed = derive(seed, secret) if data.policy.private_batches else seed
        fewest, noise = self.guard.fewest, data.policy.private_noise
        self.client = Client(
            data.client, start.problem, own.batch, seed, own.validation, fewest, noise
        )
        self.journal = Journal(folder / "journal")

    @property
    def state(self) -> ClientState:
        """The state after the last request."""
        return initial_state(self.client) if self.journal.last is None else self.journal.last.state

    @property
    def kept(self) -> Mapping[str, Kept]:
        """The versioned arrays that the site has."""
        return {} if self.journal.last is None else self.journal.last.kept

    def close(self, sent: Mapping[str, Tensor]) -> None:
        """Keep the solution: what the server sent, and what is the site's own."""
        own = {name: getattr(self.state, name) for name in OWN}
        found = {**sent, **{f"site_{n}": a for n, a in own.items() if a is not None}}
        path = self.folder / "solution.safetensors"
        sealed.save(path, found)
        path.chmod(0o600)


def _check_same(announced: str, start: Any, *, has_outer: bool) -> None:
    if not announced:
        raise InputError(
            "the site serves a problem of its owner (--problem), and the server trains on labels; "
            "start `fedsift server --problem`, or join without it"
        )
    try:
        server = json.loads(announced)
        outer_at_sites = bool(server["outer_at_sites"])
    except (ValueError, TypeError, KeyError, RecursionError):
        raise InputError("the server's message does not say what its problem looks like") from None
    own = json.loads(description(start, outer_at_sites=outer_at_sites))
    for name, value in own.items():
        if server.get(name) != value:
            raise InputError(
                f"the site's problem has {name} = {value!r} and the server's "
                f"{server.get(name)!r:.40}; give both the same --problem"
            )
    if outer_at_sites and not has_outer:
        raise InputError(
            "the server leaves F to the sites and this one's problem has no validation; return one"
        )
