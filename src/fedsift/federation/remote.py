"""Clients elsewhere: requests go out as messages, and replies may come back.

``RemoteFederation`` is written against ``Transport``, so that an engine is one small adapter. What
comes back is matched with what was sent, first by the transport's message id, then by the
``RequestId`` inside; a client that is silent, fails, or replies to another request becomes an error
reply and is named in the round's events.

Node ids are the transport's own addresses (Flower's SuperNodes); client ids are the sites' numbers.
The exchange ``hello`` maps one to the other.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from fedsift.compress import wire
from fedsift.errors import RunError, TooFewClients, WireError
from fedsift.federation.encoding import (
    ENVELOPE,
    REQUEST_ID,
    Parts,
    RequestId,
    decode_reply,
    encode_request,
    num_bytes,
)
from fedsift.messages import ClientId, Reply, Request, Scalar, Snapshot, Traffic, Versioned

NodeId = int
HELLO, CLOSE = "hello", "close"
HELLO_INTERVAL = 1.0  # seconds, at least, between two attempts to reach clients not yet connected


@dataclass(frozen=True)
class RawReply:
    """What came back for a message: the parts of a reply, or the reason why there are none."""

    reply_to: str
    parts: Parts | None
    error: str | None = None


class Transport(Protocol):
    """The engine: nodes that take messages and may reply."""

    def nodes(self) -> Collection[NodeId]:
        """Return the nodes that are connected now."""
        ...

    def push(self, messages: Sequence[tuple[NodeId, Parts]], ttl: float) -> list[str | None]:
        """Send messages that expire after ``ttl`` seconds; return an id each, None if refused."""
        ...

    def pull(self, ids: Collection[str]) -> list[RawReply]:
        """Return what has come back to these messages since the last pull."""
        ...


@dataclass(frozen=True)
class Timeouts:
    """Seconds to wait for a reply, for the clients to connect, and between two polls."""

    reply: float = 600.0
    connect: float = 300.0
    poll: float = 0.2


class RemoteFederation:
    """Asks clients over a transport; counts the bytes that it encodes and decodes."""

    def __init__(
        self,
        transport: Transport,
        run: str,
        timeouts: Timeouts = Timeouts(),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.transport, self.run, self.timeouts = transport, run, timeouts
        self.sizes: dict[ClientId, int] = {}
        self.names: dict[ClientId, str] = {}
        self.versions: dict[ClientId, dict[str, int]] = {}
        self._nodes: dict[ClientId, NodeId] = {}
        self._traffic = Traffic()
        self._asked = (-1, 0)  # round, exchanges so far in it
        self._clock, self._sleep = clock, sleep

    @property
    def traffic(self) -> Traffic:
        """All that was sent so far."""
        return self._traffic

    def snapshot(self) -> Snapshot:
        """Return what the server knows of its clients; their state is at the sites."""
        return Snapshot({}, {m: dict(known) for m, known in self.versions.items()}, self._traffic)

    def restore(self, snapshot: Snapshot) -> None:
        """Go on counting; states and versions are what the sites said when the run opened."""
        self._traffic = snapshot.traffic

    def inspect(self, client: ClientId) -> Mapping[str, Tensor] | None:  # noqa: ARG002
        """Return None: a remote client's state never leaves its site."""
        return None

    def open(self, clients: int, next_round: int, settings: Mapping[str, Scalar]) -> None:
        """Wait for this many clients and register who they are.

        ``settings`` are what every client must know of the run. A client that is beyond
        ``next_round`` returns to its state before that round.
        """
        scalars = {**settings, "next_round": next_round, "attempt": uuid.uuid4().hex}
        request_id = RequestId(self.run, next_round, 0, HELLO)
        parts = {ENVELOPE: wire.encode(scalars), REQUEST_ID: request_id.encode()}
        end, last_error = self._clock() + self.timeouts.connect, ""
        while True:
            known = set(self._nodes.values())
            messages = {node: parts for node in self.transport.nodes() if node not in known}
            for node, reply in self._exchange(messages, request_id, end).items():
                if isinstance(reply, str) or reply.error is not None:
                    last_error = reply if isinstance(reply, str) else str(reply.error)
                else:
                    self._register(node, reply)
            if len(self._nodes) >= clients:
                break
            if self._clock() >= end:
                raise TooFewClients(
                    f"{len(self._nodes)} of {clients} clients had connected after "
                    f"{self.timeouts.connect:g} s{f' ({last_error})' if last_error else ''}; "
                    "let the others join and start again"
                )
            self._sleep(max(self.timeouts.poll, HELLO_INTERVAL))
        self.sizes = dict(sorted(self.sizes.items()))

    def close(
        self, rounds: int, arrays: Mapping[str, Tensor], scalars: Mapping[str, Scalar]
    ) -> list[Reply]:
        """Send the clients the final model; return the replies of those that received it."""
        request_id = RequestId(self.run, rounds, 0, CLOSE)
        encoded = {name: wire.encode(array) for name, array in arrays.items()}
        parts = {ENVELOPE: wire.encode(scalars), **encoded}
        parts[REQUEST_ID] = request_id.encode()
        messages = dict.fromkeys(self._nodes.values(), parts)
        found = self._exchange(messages, request_id, self._clock() + self.timeouts.reply)
        replies = (self._accept(m, found[node], {}) for m, node in sorted(self._nodes.items()))
        return [reply for reply in replies if reply.error is None]

    def ask(self, request: Request, clients: Sequence[ClientId]) -> list[Reply]:
        """Ask these clients; return one reply each, in order of client id."""
        last, count = self._asked
        number = count if request.round == last else 0
        self._asked = (request.round, number + 1)
        request_id = RequestId(self.run, request.round, number, request.action)
        messages: dict[NodeId, Parts] = {}
        cache: dict[tuple[tuple[str, int], ...], Parts] = {}
        for client in sorted(clients):
            known = tuple(self.versions.get(client, {}).items())
            if known not in cache:
                encoded = encode_request(request, dict(known))
                cache[known] = {**encoded, REQUEST_ID: request_id.encode()}
            messages[self._nodes[client]] = cache[known]
        down = sum(map(num_bytes, messages.values()))
        found = self._exchange(messages, request_id, self._clock() + self.timeouts.reply)
        self._traffic += Traffic(0, down, 1)
        versions = {n: a.version for n, a in request.arrays.items() if isinstance(a, Versioned)}
        return [
            self._accept(client, found[self._nodes[client]], versions) for client in sorted(clients)
        ]

    def _accept(self, client: ClientId, found: Reply | str, versions: dict[str, int]) -> Reply:
        """Return the reply, or an error reply; note which versions the client has now."""
        if isinstance(found, Reply) and found.client != client:
            found = f"it replied as client {found.client}"
        if isinstance(found, Reply) and found.num_samples != self.sizes[client]:
            found = f"it has {found.num_samples} samples now and had {self.sizes[client]}"
        if isinstance(found, str):
            found = Reply(client, self.sizes[client], error=found)
        if found.error is not None:
            self.versions.pop(client, None)  # what it has is unknown: the next goes whole
        elif versions:
            self.versions[client] = {**self.versions.get(client, {}), **versions}
        return found

    def _register(self, node: NodeId, reply: Reply) -> None:
        if reply.client in self._nodes:
            raise RunError(
                f"two sites joined as client {reply.client}; give each site its own --client"
            )
        self._nodes[reply.client] = node
        self.sizes[reply.client] = reply.num_samples
        self.names[reply.client] = str(reply.scalars.get("name", reply.client))
        self.versions[reply.client] = {
            name.removesuffix("_version"): int(version)
            for name, version in reply.scalars.items()
            if name.endswith("_version") and version is not None
        }

    def _exchange(
        self, messages: Mapping[NodeId, Parts], request_id: RequestId, end: float
    ) -> dict[NodeId, Reply | str]:
        """Send messages; return per node the reply, or a sentence on why there is none."""
        found: dict[NodeId, Reply | str] = {}
        ttl = max(1.0, end - self._clock())
        ids = self.transport.push(list(messages.items()), ttl) if messages else []
        open_ids = {id_: node for id_, node in zip(ids, messages, strict=True) if id_ is not None}
        while open_ids:
            for raw in self.transport.pull(list(open_ids)):
                node = open_ids.pop(raw.reply_to, None)
                if node is not None:
                    found[node] = self._read(raw, request_id)
            if not open_ids or self._clock() >= end:
                break
            self._sleep(self.timeouts.poll)
        silent = f"no reply within {ttl:.0f} s"
        return {node: found.get(node, silent) for node in messages}

    def _read(self, raw: RawReply, request_id: RequestId) -> Reply | str:
        if raw.parts is None:
            return raw.error or "the transport gave no reason"
        try:
            if RequestId.decode(raw.parts) != request_id:
                return "its reply is to another request and was dropped"
            reply = decode_reply(raw.parts)
        except WireError as error:
            return str(error)
        self._traffic += Traffic(num_bytes(raw.parts), 0, 0)
        return reply
