"""Messages that are out: which nodes have yet to reply, and what is sent again.

A node that rejoined (its session is another) may have lost what it was sent, so it gets the message
again; the site replies to a repeated request from its journal. Of several copies the first reply
counts, and what the transport says of a copy that was replaced is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from fedsift.federation.encoding import Parts

NodeId = int


@dataclass(frozen=True)
class RawReply:
    """What came back for a message: the parts of a reply, or the reason why there are none."""

    reply_to: str
    parts: Parts | None
    error: str | None = None


class Transport(Protocol):
    """The engine: nodes that take messages and may reply."""

    def nodes(self) -> Mapping[NodeId, str]:
        """Return the nodes that are connected now, each with a mark of its session."""
        ...

    def push(self, messages: list[tuple[NodeId, Parts]], ttl: float) -> list[str | None]:
        """Send messages that expire after ``ttl`` seconds; return an id each, None if refused."""
        ...

    def pull(self, ids: list[str]) -> list[RawReply]:
        """Return what has come back to these messages since the last pull."""
        ...


@dataclass
class _Sent:
    parts: Parts
    session: str | None
    ids: list[str]


class Outbox:
    """Messages of one exchange."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._out: dict[NodeId, _Sent] = {}

    @property
    def waiting(self) -> list[NodeId]:
        """The nodes that have not replied."""
        return list(self._out)

    def push(
        self, messages: Mapping[NodeId, Parts], sessions: Mapping[NodeId, str], ttl: float
    ) -> None:
        """Send a message to each node; one that still waits there is replaced."""
        if not messages:
            return
        ids = self._transport.push(list(messages.items()), ttl)
        for (node, parts), id_ in zip(messages.items(), ids, strict=True):
            before = self._out[node].ids if node in self._out else []
            if id_ is not None:
                self._out[node] = _Sent(parts, sessions.get(node), [*before, id_])

    def repeat(self, sessions: Mapping[NodeId, str], ttl: float) -> None:
        """Send again to the nodes that have rejoined since."""
        again = {
            node: sent.parts
            for node, sent in self._out.items()
            if node in sessions and sessions[node] != sent.session
        }
        self.push(again, sessions, ttl)

    def pull(self) -> dict[NodeId, RawReply]:
        """Return what has come back; those nodes no longer wait."""
        open_ids = {id_: node for node, sent in self._out.items() for id_ in sent.ids}
        found: dict[NodeId, RawReply] = {}
        for raw in self._transport.pull(list(open_ids)) if open_ids else []:
            node = open_ids.get(raw.reply_to)
            if node is None or node not in self._out:
                continue
            sent = self._out[node]
            if raw.parts is None and raw.reply_to != sent.ids[-1]:
                sent.ids.remove(raw.reply_to)
                continue
            found[node] = raw
            del self._out[node]
        return found
