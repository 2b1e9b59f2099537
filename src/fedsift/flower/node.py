"""A site's node: takes the server's messages to the site's process, and its replies back.

It replaces Flower's SuperNode and executor, with an unmodified SuperLink, and runs nothing that the
server sends: the code in a run's bundle is never fetched. There is no long polling, so it asks for
messages; how often follows from three things:

    at least every 0.1 s      while messages come
    every LONGEST s           when none has come for two minutes
    SHARE times as long as the server took for the last request, so that polling does not load it

A message is announced before its objects are uploaded. One that is not whole is put aside and tried
again (0.02 s, doubling to 0.2); it holds up no other, and is dropped when its run has ended. If the
server is away in the middle of a message, the message is dropped and the node rejoins: the server
then sends it again, and the site's journal keeps anything from being computed twice.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from fedsift.errors import FedsiftError, InputError, RunError
from fedsift.files import write_text
from fedsift.flower.compat import Away, Incoming, Refused, RunOver, parts_of
from fedsift.logs import say

SHORTEST, LONGEST = 0.1, 2.0  # seconds between two polls
SHARE = 4.0  # times the server's own time
TIRED = 60.0  # idle seconds per second between polls
ASIDE = (0.02, 0.2)  # seconds between two looks at a message that is not whole
RETRY = (0.5, 1.0, 2.0, 4.0, 8.0)  # seconds between two attempts to join


class Link(Protocol):
    """The connection to the server (``compat.Session``)."""

    def join(self, before: int | None) -> int:
        """Begin a session."""
        ...

    def receive(self) -> Incoming | None:
        """Return a message's announcement."""
        ...

    def pull(self, incoming: Incoming) -> bool:
        """Get what is missing of a message."""
        ...

    def reply(self, incoming: Incoming, parts: dict[str, bytes] | str, seconds: float) -> None:
        """Send a reply."""
        ...

    def leave(self) -> None:
        """End the session."""
        ...


def pace(took: float, idle: float) -> float:
    """Return the seconds until the next poll: of the last one's duration, and since a message."""
    return min(LONGEST, max(SHORTEST, SHARE * took, idle / TIRED))


class Node:
    """One site's node; ``ask`` is the site, ``folder`` keeps the id of the session."""

    def __init__(
        self,
        link: Link,
        ask: Callable[[dict[str, bytes]], dict[str, bytes]],
        folder: Path,
        server: str,
        give_up: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._link, self._ask, self._server, self._give_up = link, ask, server, give_up
        self._memory = folder / "node.json"
        self._clock, self._sleep = clock, sleep
        self._aside: list[Incoming] = []
        self._last = clock()  # when a message came

    def run(self) -> None:
        """Take part until a signal comes."""
        try:
            while True:
                self._join()
                try:
                    while True:
                        self._sleep(self.step())
                except Away as error:
                    say(f"the server is away ({error}); joining again")
                    self._aside.clear()
                except Refused:
                    say("the server no longer knows the session; joining again")
        finally:
            self._link.leave()

    def step(self) -> float:
        """Look for a message once, answer those that are whole; return how long to wait."""
        start = self._clock()
        found = self._link.receive()
        took = self._clock() - start
        if found is not None:
            self._aside.append(found)
            self._last = self._clock()
        answered = [incoming for incoming in list(self._aside) if self._answer(incoming)]
        if found is not None or answered:
            return 0.0 if answered else ASIDE[0]
        if self._aside:
            return min(ASIDE[0] * 2.0 ** min(i.tries for i in self._aside), ASIDE[1])
        return pace(took, self._clock() - self._last)

    def _answer(self, incoming: Incoming) -> bool:
        """Reply to a message if it is whole; return False if it stays aside."""
        try:
            if incoming.expired:
                raise RunOver
            if not self._link.pull(incoming):
                incoming.tries = min(incoming.tries + 1, 10)
                return False
            start = self._clock()
            self._link.reply(incoming, self._reply(incoming), self._clock() - start)
            self._last = self._clock()
        except RunOver:
            say("a message was dropped: its run has ended")
        self._aside.remove(incoming)
        return True

    def _reply(self, incoming: Incoming) -> dict[str, bytes] | str:
        parts = parts_of(incoming.message())
        if parts is None:
            return "this is not a fedsift message"
        try:
            return self._ask(parts)
        except FedsiftError as error:
            say(str(error))
            return str(error)

    def _join(self) -> None:
        """Join; try again while the server is away, at most for ``give_up`` seconds."""
        start, tries, said = self._clock(), 0, ""
        while True:
            try:
                node = self._link.join(self.before)
            except Away as error:
                reason = f"{self._server} does not answer ({error}); is the server running?"
            except Refused as error:
                reason = self._refusal(error)
            except InputError as error:
                raise InputError(
                    f"the certificate of {self._server} is not of the CA that was given ({error}); "
                    "ask whoever runs the server for ca.crt"
                ) from None
            else:
                write_text(self._memory, json.dumps({"node": node, "server": self._server}))
                say(f"joined {self._server}")
                return
            if reason != said:
                say(reason)
                said = reason
            if self._clock() - start > self._give_up:
                raise RunError(reason)
            self._sleep(RETRY[min(tries, len(RETRY) - 1)])
            tries += 1

    def _refusal(self, error: Refused) -> str:
        if error.code == 401:
            raise InputError(
                f"{self._server} refused the key's signature; compare this machine's clock with "
                "the server's, and give the key that belongs to the public one there"
            ) from None
        return (
            f"{self._server} does not accept the key: it is not registered there, was revoked, or "
            "is in use by another `fedsift join`; `fedsift status` at the server shows which"
        )

    @property
    def before(self) -> int | None:
        """Return the node's id in the session before, at this server."""
        try:
            kept = json.loads(self._memory.read_text(encoding="utf-8"))
            return int(kept["node"]) if kept["server"] == self._server else None
        except (OSError, ValueError, TypeError, KeyError):
            return None
