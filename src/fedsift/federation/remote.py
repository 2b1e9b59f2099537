"""Clients elsewhere: requests go out as letters, replies come back or do not.

``RemoteFederation`` is written against ``Mail``, so that an engine is one small adapter. A letter
is matched by its id with what was sent, then by what it says it is about; a client that stays
silent, fails, or answers something else becomes an error reply and is named in the round's events.

Node ids are the engine's; client ids are the sites' own. An opening question maps one to the other.
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
    ABOUT,
    ENVELOPE,
    About,
    Parts,
    decode_reply,
    encode_request,
    num_bytes,
)
from fedsift.messages import ClientId, Reply, Request, Scalar, Snapshot, Traffic, Versioned

NodeId = int
HELLO, CLOSE = "hello", "close"
GREET = 1.0  # seconds between looks for clients that are not there yet


@dataclass(frozen=True)
class Letter:
    """What came back to a letter sent: its parts, or why there are none."""

    reply_to: str
    parts: Parts | None
    error: str | None = None


class Mail(Protocol):
    """The engine: nodes that take letters and may answer."""

    def nodes(self) -> Collection[NodeId]:
        """Return the nodes that are connected now."""
        ...

    def push(self, letters: Sequence[tuple[NodeId, Parts]], ttl: float) -> list[str | None]:
        """Send letters that are void after ``ttl`` seconds; return an id each, None if refused."""
        ...

    def pull(self, ids: Collection[str]) -> list[Letter]:
        """Return what has come back to these letters since the last pull."""
        ...


@dataclass(frozen=True)
class Patience:
    """How long to wait, in seconds: for an answer, for the clients to connect, between looks."""

    answer: float = 600.0
    connect: float = 300.0
    poll: float = 0.2


class RemoteFederation:
    """Asks clients by mail; counts the bytes that it encodes and decodes."""

    def __init__(
        self,
        mail: Mail,
        run: str,
        patience: Patience = Patience(),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.mail, self.run, self.patience = mail, run, patience
        self.sizes: dict[ClientId, int] = {}
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
        """Return the traffic: arrays and versions are the sites' own."""
        return Snapshot(traffic=self._traffic)

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a checkpoint; ``open`` has said to the sites from where."""
        self._traffic = snapshot.traffic

    def inspect(self, client: ClientId) -> None:  # noqa: ARG002
        """Return None: a client's arrays are its own."""
        return

    def open(self, clients: int, next_round: int, settings: Mapping[str, Scalar]) -> None:
        """Wait for this many clients and learn who they are.

        ``settings`` are what every client must know of the run. A client that has gone further
        than ``next_round`` returns to where it stood before it.
        """
        scalars = {**settings, "next_round": next_round, "attempt": uuid.uuid4().hex}
        about = About(self.run, next_round, 0, HELLO)
        parts = {ENVELOPE: wire.encode(scalars), ABOUT: about.encode()}
        end, trouble = self._clock() + self.patience.connect, ""
        while True:
            known = set(self._nodes.values())
            asked = {node: parts for node in self.mail.nodes() if node not in known}
            for node, reply in self._exchange(asked, about, end).items():
                if isinstance(reply, str) or reply.error is not None:
                    trouble = reply if isinstance(reply, str) else str(reply.error)
                else:
                    self._welcome(node, reply)
            if len(self._nodes) >= clients:
                break
            if self._clock() >= end:
                raise TooFewClients(
                    f"{len(self._nodes)} of {clients} clients were there after "
                    f"{self.patience.connect:g} s{f' ({trouble})' if trouble else ''}; let them "
                    "join and start again"
                )
            self._sleep(max(self.patience.poll, GREET))
        self.sizes = dict(sorted(self.sizes.items()))

    def close(self, rounds: int, y: Tensor, told: Mapping[str, Scalar]) -> list[Reply]:
        """Send the clients the final model; return the replies of those that got it."""
        about = About(self.run, rounds, 0, CLOSE)
        parts = {ENVELOPE: wire.encode(told), "y": wire.encode(y), ABOUT: about.encode()}
        letters = dict.fromkeys(self._nodes.values(), parts)
        answers = self._exchange(letters, about, self._clock() + self.patience.answer)
        settled = (self._settle(m, answers[node], {}) for m, node in sorted(self._nodes.items()))
        return [reply for reply in settled if reply.error is None]

    def ask(self, request: Request, clients: Sequence[ClientId]) -> list[Reply]:
        """Ask these clients; return one reply each, in order of client id."""
        last, count = self._asked
        number = count if request.round == last else 0
        self._asked = (request.round, number + 1)
        about = About(self.run, request.round, number, request.action)
        letters: dict[NodeId, Parts] = {}
        cache: dict[tuple[tuple[str, int], ...], Parts] = {}
        for client in sorted(clients):
            known = tuple(self.versions.get(client, {}).items())
            if known not in cache:
                cache[known] = {**encode_request(request, dict(known)), ABOUT: about.encode()}
            letters[self._nodes[client]] = cache[known]
        down = sum(map(num_bytes, letters.values()))
        answers = self._exchange(letters, about, self._clock() + self.patience.answer)
        self._traffic += Traffic(0, down, 1)
        versions = {n: a.version for n, a in request.arrays.items() if isinstance(a, Versioned)}
        return [
            self._settle(client, answers[self._nodes[client]], versions)
            for client in sorted(clients)
        ]

    def _settle(self, client: ClientId, answer: Reply | str, versions: dict[str, int]) -> Reply:
        """Make a reply of what came, and note which versions the client has now."""
        if isinstance(answer, Reply) and answer.client != client:
            answer = f"it answered as client {answer.client}"
        if isinstance(answer, Reply) and answer.num_samples != self.sizes[client]:
            answer = f"it has {answer.num_samples} samples now and had {self.sizes[client]}"
        if isinstance(answer, str):
            answer = Reply(client, self.sizes[client], error=answer)
        if answer.error is not None:
            self.versions.pop(client, None)  # what it has now is not known: all goes whole
        elif versions:
            self.versions[client] = versions
        return answer

    def _welcome(self, node: NodeId, reply: Reply) -> None:
        if reply.client in self._nodes:
            raise RunError(
                f"two sites say that they are client {reply.client}; give each its own --client"
            )
        self._nodes[reply.client] = node
        self.sizes[reply.client] = reply.num_samples
        self.versions[reply.client] = {
            name.removesuffix("_version"): int(version)
            for name, version in reply.scalars.items()
            if name.endswith("_version") and version is not None
        }

    def _exchange(
        self, letters: Mapping[NodeId, Parts], about: About, end: float
    ) -> dict[NodeId, Reply | str]:
        """Send letters; return per node the reply, or a sentence on why there is none."""
        answers: dict[NodeId, Reply | str] = {}
        ttl = max(1.0, end - self._clock())
        ids = self.mail.push(list(letters.items()), ttl) if letters else []
        open_ids = {id_: node for id_, node in zip(ids, letters, strict=True) if id_ is not None}
        while open_ids:
            for letter in self.mail.pull(list(open_ids)):
                node = open_ids.pop(letter.reply_to, None)
                if node is not None:
                    answers[node] = self._read(letter, about)
            if not open_ids or self._clock() >= end:
                break
            self._sleep(self.patience.poll)
        silent = f"no answer within {ttl:.0f} s"
        return {node: answers.get(node, silent) for node in letters}

    def _read(self, letter: Letter, about: About) -> Reply | str:
        if letter.parts is None:
            return letter.error or "the engine gave no reason"
        try:
            if About.decode(letter.parts) != about:
                return "its answer is to another question and was dropped"
            reply = decode_reply(letter.parts)
        except WireError as error:
            return str(error)
        self._traffic += Traffic(num_bytes(letter.parts), 0, 0)
        return reply
