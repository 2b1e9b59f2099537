"""Clients spread over the processes of one machine or of several: each answers for its own.

    rank 0      runs the method; asks every rank for its share of a cohort, answers its own share
    rank > 0    ``serve``: waits for rank 0, answers for its clients, keeps their state

Replies are put in the order of client ids, so that without pooling the numbers are those of one
process, bit for bit. With it (the default) a pass is shared by the clients of a rank instead of all
clients, and the numbers differ in rounding. A client belongs to one rank for the whole run. Its
state leaves that rank for checkpoints, evaluation and the audit only. Bytes are counted as in
``LocalFederation``: what would travel between sites and server, not between ranks.

An error of a rank ends the run: the rank sends its sentence, and one that dies breaks the link.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fedsift.client import Client, ClientState
from fedsift.client.guard import Guard
from fedsift.compress import wire
from fedsift.errors import FedsiftError, RunError
from fedsift.federation.encoding import (
    Parts,
    decode_reply,
    decode_request,
    encode_reply,
    encode_request,
)
from fedsift.federation.link import Link
from fedsift.federation.local import LocalFederation
from fedsift.federation.placing import CPU, placed
from fedsift.messages import ClientId, Reply, Request, Snapshot

DO, CLIENTS, FAILED = ".do", ".clients", ".failed"
ASK, INSPECT, MARK, FETCH, RESTORE, STOP = "ask", "inspect", "mark", "fetch", "restore", "stop"
States = Mapping[ClientId, Mapping[str, Tensor]]


def shares(sizes: Mapping[ClientId, int], ranks: int) -> dict[ClientId, int]:
    """Return the rank of every client: the largest first, each to the rank with fewest samples."""
    loads, owners = [0] * ranks, dict[ClientId, int]()
    for client in sorted(sizes, key=lambda m: (-sizes[m], m)):
        rank = loads.index(min(loads))
        owners[client] = rank
        loads[rank] += sizes[client]
    return owners


class ShardedFederation(LocalFederation):
    """The federation as rank 0 sees it."""

    def __init__(
        self,
        clients: Iterable[Client],
        *,
        link: Link,
        pool: bool = True,
        names: Sequence[str] = (),
        guard: Guard | None = None,
    ) -> None:
        super().__init__(clients, pool=pool, names=names, guard=guard)
        self.link, self.owners = link, shares(self.sizes, link.size)

    def answers(self, request: Request, clients: Sequence[ClientId]) -> list[Reply]:
        """Ask every rank for its share, answer one's own, return the replies in order."""
        theirs = {rank: self._of(rank, clients) for rank in self._others}
        theirs = {rank: asked for rank, asked in theirs.items() if asked}
        for rank, asked in theirs.items():
            self._tell(rank, ASK, asked, encode_request(request))
        found = {r.client: r for r in super().answers(request, self._of(0, clients))}
        here = (a.device for a in request.arrays.values() if isinstance(a, Tensor))
        where = next(here, CPU)
        for rank, asked in theirs.items():
            for client in asked:
                reply = decode_reply(self._told(rank))
                found[client] = replace(reply, arrays=placed(reply.arrays, where))
        return [found[m] for m in clients]

    def state(self, client: ClientId) -> ClientState:
        """Return a client's state, from its rank."""
        rank = self.owners.get(client, 0)
        if rank == 0:
            return super().state(client)
        self._tell(rank, INSPECT, [client])
        (arrays,) = _read_states(self._told(rank)).values()
        return ClientState.of(arrays)

    def snapshot(self) -> Snapshot:
        """Return the states as they are now; those of other ranks come when they are read."""
        for rank in self._others:
            self._tell(rank, MARK)
        own = super().snapshot()
        return replace(own, clients=_Marked(own.clients, self._fetch))

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a checkpoint, every rank with its own clients."""
        for rank in self._others:
            states = {m: s for m, s in snapshot.clients.items() if self.owners[m] == rank}
            self._tell(rank, RESTORE, parts=_state_parts(states))
        own = {m: s for m, s in snapshot.clients.items() if self.owners[m] == 0}
        super().restore(replace(snapshot, clients=own))

    def close(self) -> None:
        """Let the other ranks end; those that are gone already do not matter."""
        for rank in self._others:
            try:
                self._tell(rank, STOP)
            except RunError:
                continue

    @property
    def _others(self) -> range:
        return range(1, self.link.size)

    def _of(self, rank: int, clients: Sequence[ClientId]) -> list[ClientId]:
        return [m for m in clients if self.owners[m] == rank]

    def _tell(
        self, rank: int, what: str, clients: Sequence[ClientId] = (), parts: Parts | None = None
    ) -> None:
        named = {DO: what.encode(), CLIENTS: json.dumps(list(clients)).encode()}
        self.link.send(rank, {**named, **(parts or {})})

    def _told(self, rank: int) -> Parts:
        parts = self.link.receive(rank)
        if FAILED in parts:
            raise RunError(f"process {rank} of {self.link.size} failed: {parts[FAILED].decode()}")
        return parts

    def _fetch(self) -> dict[ClientId, dict[str, Tensor]]:
        found: dict[ClientId, dict[str, Tensor]] = {}
        for rank in self._others:
            self._tell(rank, FETCH)
            found |= _read_states(self._told(rank))
        return found


class _Marked(Mapping[ClientId, Mapping[str, Tensor]]):
    """States at the time of a mark: those of this rank, and those of others once one is needed."""

    def __init__(self, own: States, fetch: Callable[[], States]) -> None:
        self._own, self._fetch, self._all = own, fetch, dict[ClientId, Mapping[str, Tensor]]()

    def _whole(self) -> States:
        if not self._all:
            self._all = {**self._own, **self._fetch()}
        return self._all

    def __getitem__(self, client: ClientId) -> Mapping[str, Tensor]:
        return self._whole()[client]

    def __iter__(self) -> Iterator[ClientId]:
        return iter(self._whole())

    def __len__(self) -> int:
        return len(self._whole())


def serve(federation: LocalFederation, link: Link, where: torch.device = CPU) -> None:
    """Do what rank 0 asks of this rank's clients, on a device, until the run is over."""
    marked = federation.snapshot().clients
    while True:
        parts = link.receive(0)
        what, clients = parts.pop(DO).decode(), json.loads(parts.pop(CLIENTS))
        if what == STOP:
            return
        try:
            if what == ASK:
                for reply in federation.answers(_request(parts, where), clients):
                    link.send(0, encode_reply(reply))
            elif what == INSPECT:
                link.send(0, _state_parts({m: federation.inspect(m) for m in clients}))
            elif what == MARK:
                marked = federation.snapshot().clients
            elif what == FETCH:
                link.send(0, _state_parts(marked))
            elif what == RESTORE:
                federation.restore(Snapshot(_read_states(parts, where)))
        except Exception as error:
            failed(link, error)
            raise


def failed(link: Link, error: Exception) -> None:
    """Tell rank 0 why this rank ends; it reads that in place of what it waits for next."""
    known = isinstance(error, FedsiftError)
    sentence = str(error) if known else f"{type(error).__name__}: {error}"
    try:
        link.send(0, {FAILED: " ".join(sentence.split()).encode()})
    except RunError:
        return


def _request(parts: Parts, where: torch.device) -> Request:
    request, _ = decode_request(parts, {})
    return replace(request, arrays=placed(request.plain().arrays, where))


def _state_parts(states: States) -> Parts:
    return {
        f"{client}/{name}": wire.encode(value)
        for client, arrays in states.items()
        for name, value in arrays.items()
    }


def _read_states(parts: Parts, where: torch.device = CPU) -> dict[ClientId, dict[str, Tensor]]:
    found: dict[ClientId, dict[str, Tensor]] = {}
    for key, data in parts.items():
        client, _, name = key.partition("/")
        value = wire.decode(data)
        assert isinstance(value, Tensor)
        found.setdefault(int(client), {})[name] = value.to(where)
    return found
