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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from fedsift.compress import wire
from fedsift.errors import RunError, TooFewClients, WireError
from fedsift.federation.encoding import (
    ENVELOPE,
    REQUEST_ID,
    Parts,
    RequestId,
    decode_reply,
    encoded,
    num_bytes,
)
from fedsift.federation.outbox import NodeId, Outbox, RawReply, Transport
from fedsift.messages import ClientId, Reply, Request, Scalar, Snapshot, Traffic

HELLO, CLOSE = "hello", "close"
NEW_NODES = 1.0  # seconds, at least, between two looks for nodes that have joined
SAY_AGAIN = 15.0  # seconds after which `hello` is repeated to a node that is silent; then doubled
REJOINED = 2.0  # seconds between two looks for nodes that have rejoined
SLOWEST_POLL = 1.0
LONGEST_ERROR = 500  # characters of a client's sentence that are kept
MOST_SAMPLES = 10**12  # that a site can claim to have


@dataclass(frozen=True)
class Timeouts:
    """Seconds to wait for a reply, for the clients to connect, and between two polls."""

    reply: float = 600.0
    connect: float = 300.0
    poll: float = 0.1


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

    def open(
        self,
        clients: int,
        next_round: int,
        settings: Mapping[str, Scalar],
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Wait for this many clients and register who they are.

        ``settings`` are what every client must know of the run. A client that is beyond
        ``next_round`` returns to its state before that round. ``say`` hears who is missing.
        """
        scalars = {**settings, "next_round": next_round, "attempt": uuid.uuid4().hex}
        request_id = RequestId(self.run, next_round, 0, HELLO)
        parts = {ENVELOPE: wire.encode(scalars), REQUEST_ID: request_id.encode()}
        start, last_error, said = self._clock(), "", -1
        end, outbox = start + self.timeouts.connect, Outbox(self.transport)
        look, again, patience = start, start + SAY_AGAIN, SAY_AGAIN
        while True:
            now = self._clock()
            if now >= look:
                self._greet(outbox, parts, end - now, repeat=now >= again)
                look = now + max(self.timeouts.poll, NEW_NODES)
            if now >= again:
                patience *= 2
                again = now + patience
            for node, raw in outbox.pull().items():
                reply = self._read(raw, request_id)
                if isinstance(reply, str) or reply.error is not None:
                    last_error = reply if isinstance(reply, str) else str(reply.error)
                elif not 1 <= reply.num_samples <= MOST_SAMPLES:
                    last_error = f"client {reply.client} claims {reply.num_samples} samples"
                else:
                    self._register(node, reply)
            if len(self._nodes) >= clients:
                break
            if len(self._nodes) != said:
                said = len(self._nodes)
                say(f"waiting for {clients - said} of {clients} sites")
            if self._clock() >= end:
                raise TooFewClients(
                    f"{len(self._nodes)} of {clients} clients had connected after "
                    f"{self.timeouts.connect:g} s{f' ({last_error})' if last_error else ''}; "
                    "let the others join and start again"
                )
            self._sleep(self.timeouts.poll)
        self.sizes = dict(sorted(self.sizes.items()))

    def _greet(self, outbox: Outbox, parts: Parts, ttl: float, *, repeat: bool) -> None:
        """Say hello to nodes that are new or have rejoined, and again to those that are silent."""
        sessions, known = self.transport.nodes(), set(self._nodes.values())
        silent = set() if repeat else set(outbox.waiting)
        new = [node for node in sessions if node not in known | silent]
        ttl = max(1.0, ttl)
        outbox.push(dict.fromkeys(new, parts), sessions, ttl)
        outbox.repeat(sessions, ttl)

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
        cache: dict[tuple[tuple[str, int], ...], tuple[Parts, Mapping[str, int]]] = {}
        versions: dict[ClientId, Mapping[str, int]] = {}
        for client in sorted(clients):
            known = tuple(self.versions.get(client, {}).items())
            if known not in cache:
                found = request.delivery(dict(known))
                parts = {**encoded(found), REQUEST_ID: request_id.encode()}
                cache[known] = parts, found.versions
            messages[self._nodes[client]], versions[client] = cache[known]
        down = sum(map(num_bytes, messages.values()))
        replies = self._exchange(messages, request_id, self._clock() + self.timeouts.reply)
        self._traffic += Traffic(0, down, 1)
        return [
            self._accept(client, replies[self._nodes[client]], versions[client])
            for client in sorted(clients)
        ]

    def _accept(self, client: ClientId, found: Reply | str, versions: Mapping[str, int]) -> Reply:
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
        start, outbox = self._clock(), Outbox(self.transport)
        ttl, look = max(1.0, end - start), start + REJOINED
        if messages:
            outbox.push(messages, self.transport.nodes(), ttl)
        while outbox.waiting:
            for node, raw in outbox.pull().items():
                found[node] = self._read(raw, request_id)
            now = self._clock()
            if not outbox.waiting or now >= end:
                break
            if now >= look:
                outbox.repeat(self.transport.nodes(), max(1.0, end - now))
                look = now + REJOINED
            self._sleep(max(self.timeouts.poll, min(SLOWEST_POLL, (now - start) / 30)))
        silent = f"no reply within {ttl:.0f} s"
        return {node: found.get(node, silent) for node in messages}

    def _read(self, raw: RawReply, request_id: RequestId) -> Reply | str:
        if raw.parts is None:
            return (raw.error or "the transport gave no reason")[:LONGEST_ERROR]
        try:
            if RequestId.decode(raw.parts) != request_id:
                return "its reply is to another request and was dropped"
            reply = decode_reply(raw.parts)
        except WireError as error:
            return str(error)
        self._traffic += Traffic(num_bytes(raw.parts), 0, 0)
        if reply.error is not None:
            reply = replace(reply, error=reply.error[:LONGEST_ERROR])
        return reply
