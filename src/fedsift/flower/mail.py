"""Letters over Flower's Grid.

A letter is one Flower message of type ``query`` with one ConfigRecord of bytes. Flower's own
``send_and_receive`` looks for replies every 3 s; here the federation looks as often as it likes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from fedsift.federation.encoding import Parts
from fedsift.federation.remote import Letter, NodeId
from fedsift.flower.relay import RECORD


class GridMail:
    """``Mail`` on a Grid."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def nodes(self) -> Collection[NodeId]:
        """Return the nodes that are connected now."""
        return sorted(self._grid.get_node_ids())

    def push(self, letters: Sequence[tuple[NodeId, Parts]], ttl: float) -> list[str | None]:
        """Send letters."""
        messages = [
            Message(
                RecordDict({RECORD: ConfigRecord(dict(parts))}), node, MessageType.QUERY, ttl=ttl
            )
            for node, parts in letters
        ]
        ids: list[str | None] = [id_ or None for id_ in self._grid.push_messages(messages)]
        return ids or [None] * len(messages)  # Flower returns nothing where all is too large

    def pull(self, ids: Collection[str]) -> list[Letter]:
        """Return what has come back."""
        return [_letter(message) for message in self._grid.pull_messages(list(ids))]


def _letter(message: Message) -> Letter:
    reply_to = message.metadata.reply_to_message_id
    if message.has_error():
        reason = f"{message.error.reason or 'no reason given'} (Flower's code {message.error.code})"
        return Letter(reply_to, None, reason)
    record = message.content.config_records.get(RECORD)
    if record is None:
        return Letter(reply_to, None, "its answer is not a fedsift message")
    parts = {str(name): data for name, data in record.items() if isinstance(data, bytes)}
    return Letter(reply_to, parts)
