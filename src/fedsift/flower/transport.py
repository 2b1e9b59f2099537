"""``Transport`` over Flower's Grid.

A message is one Flower message of type ``query`` with one ConfigRecord of bytes. Flower's own
``send_and_receive`` polls for replies every 3 s; here the federation decides how often to poll.
"""

from __future__ import annotations

from collections.abc import Mapping

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from fedsift.federation.encoding import Parts
from fedsift.federation.outbox import NodeId, RawReply
from fedsift.flower.compat import RECORD, ServerReplies, parts_of


class GridTransport:
    """``Transport`` on a Grid."""

    def __init__(self, grid: Grid) -> None:
        self._grid, self._replies = grid, ServerReplies(grid)

    def nodes(self) -> Mapping[NodeId, str]:
        """Return the nodes that are connected now, and since when."""
        found = {node.node_id: node.last_activated_at for node in self._grid.get_nodes()}
        return dict(sorted(found.items()))

    def push(self, messages: list[tuple[NodeId, Parts]], ttl: float) -> list[str | None]:
        """Send messages."""
        sent = [
            Message(
                RecordDict({RECORD: ConfigRecord(dict(parts))}), node, MessageType.QUERY, ttl=ttl
            )
            for node, parts in messages
        ]
        ids: list[str | None] = [id_ or None for id_ in self._grid.push_messages(sent)]
        return ids or [None] * len(sent)  # Flower returns nothing where all are too large

    def pull(self, ids: list[str]) -> list[RawReply]:
        """Return what has come back."""
        return [_raw_reply(message) for message in self._replies.pull(ids)]


def _raw_reply(message: Message) -> RawReply:
    reply_to = message.metadata.reply_to_message_id
    if message.has_error():
        reason = f"{message.error.reason or 'no reason given'} (Flower's code {message.error.code})"
        return RawReply(reply_to, None, reason)
    parts = parts_of(message)
    return RawReply(reply_to, parts, None if parts else "its reply is not a fedsift message")
