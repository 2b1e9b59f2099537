"""``Transport`` over Flower's Grid.

A message is one Flower message of type ``query`` with one ConfigRecord of bytes. Flower's own
``send_and_receive`` polls for replies every 3 s; here the federation decides how often to poll.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from fedsift.federation.encoding import Parts
from fedsift.federation.remote import NodeId, RawReply
from fedsift.flower.client_app import RECORD


class GridTransport:
    """``Transport`` on a Grid."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def nodes(self) -> Collection[NodeId]:
        """Return the SuperNodes that are connected now."""
        return sorted(self._grid.get_node_ids())

    def push(self, messages: Sequence[tuple[NodeId, Parts]], ttl: float) -> list[str | None]:
        """Send messages."""
        sent = [
            Message(
                RecordDict({RECORD: ConfigRecord(dict(parts))}), node, MessageType.QUERY, ttl=ttl
            )
            for node, parts in messages
        ]
        ids: list[str | None] = [id_ or None for id_ in self._grid.push_messages(sent)]
        return ids or [None] * len(sent)  # Flower returns nothing where all are too large

    def pull(self, ids: Collection[str]) -> list[RawReply]:
        """Return what has come back."""
        return [_raw_reply(message) for message in self._grid.pull_messages(list(ids))]


def _raw_reply(message: Message) -> RawReply:
    reply_to = message.metadata.reply_to_message_id
    if message.has_error():
        reason = f"{message.error.reason or 'no reason given'} (Flower's code {message.error.code})"
        return RawReply(reply_to, None, reason)
    record = message.content.config_records.get(RECORD)
    if record is None:
        return RawReply(reply_to, None, "its reply is not a fedsift message")
    parts = {str(name): data for name, data in record.items() if isinstance(data, bytes)}
    return RawReply(reply_to, parts)
