"""All clients in this process: one resident model, clients as views of data.

What the cohort has to compute along one direction v is done in one pass over all its samples where
the mathematics allows it (``pooled``); the numbers differ in rounding only.

Clients reply in the order of their ids and draw their randomness from (seed, round, client,
purpose), so results do not depend on the order in which they are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from fedsift.client import Client, ClientState, answer, initial_state
from fedsift.client.guard import Asked, Guard
from fedsift.errors import InputError, Refused
from fedsift.federation.pooled import pooled
from fedsift.messages import ClientId, Reply, Request, Snapshot, Traffic
from fedsift.problem import Problem


class LocalFederation:
    """All clients in this process; bytes are counted as if they had travelled.

    Args:
        clients: The clients; ``LocalFederation.of`` makes them from batches.
        pool: Whether clients may share a pass over their samples, which is faster; without it
            every client computes for itself, as on a network, bit for bit.
        names: What to call the clients.
        guard: What clients refuse, as sites with its policy would; batches are drawn as without.

    Examples:
        >>> import torch, fedsift as fs
        >>> problem = fs.LossPair(
        ...     lambda x, y, batch: (y - x).square().sum(),
        ...     lambda x, y, batch: y.square().sum(),
        ...     start=torch.ones(1),
        ... )
        >>> batches = [fs.TensorBatch((torch.zeros(n, 1),)) for n in (5, 7)]
        >>> fs.LocalFederation.of(problem, batches).sizes
        {0: 5, 1: 7}
    """

    def __init__(
        self,
        clients: Iterable[Client],
        *,
        pool: bool = True,
        names: Sequence[str] = (),
        guard: Guard | None = None,
    ) -> None:
        self.pool, self.names, self.guard = pool, dict(enumerate(names)), guard
        if guard is not None:
            clients = [replace(client, fewest=guard.fewest) for client in clients]
        self.clients = {client.id: client for client in sorted(clients, key=lambda c: c.id)}
        self._asked: dict[ClientId, Asked] = {}
        if not self.clients:
            raise InputError("the federation has no client; give at least one")
        self.sizes = {m: len(client.batch) for m, client in self.clients.items()}
        self.states: dict[ClientId, ClientState] = {}
        self._versions: dict[ClientId, Mapping[str, int]] = {}
        self._traffic = Traffic()
        self._round: tuple[int, set[ClientId]] = (-1, set())

    @property
    def traffic(self) -> Traffic:
        """All bytes and exchanges so far."""
        return self._traffic

    @classmethod
    def of(
        cls,
        problem: Problem,
        batches: Sequence[Any],
        seed: int = 0,
        *,
        validations: Sequence[Any] | None = None,
    ) -> LocalFederation:
        """Make a client of every batch, numbered from 0.

        Args:
            problem: The losses of all clients.
            batches: What ``inner_loss`` gets as its batch, one per client.
            seed: The seed of the clients' random draws.
            validations: The clients' own batches of the outer loss, where F is theirs.

        Returns:
            The federation.
        """
        held = [None] * len(batches) if validations is None else validations
        if len(held) != len(batches):
            raise InputError(
                f"there are {len(batches)} clients but validation samples of {len(held)}; give one "
                "batch of them per client"
            )
        pairs = zip(batches, held, strict=True)
        return cls(Client(m, problem, batch, seed, own) for m, (batch, own) in enumerate(pairs))

    def state(self, client: ClientId) -> ClientState:
        """Return a client's state: the site's own view, not the server's."""
        if client not in self.clients:
            raise InputError(f"there is no client {client}; there are {len(self.clients)} clients")
        return self.states.get(client) or initial_state(self.clients[client])

    def inspect(self, client: ClientId) -> Mapping[str, Tensor]:
        """Return a client's arrays."""
        return self.state(client).arrays()

    def snapshot(self) -> Snapshot:
        """Return the arrays of all clients that were asked so far."""
        arrays = {client: state.arrays() for client, state in self.states.items()}
        return Snapshot(arrays, dict(self._versions), self._traffic)

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a checkpoint."""
        self.states = {m: ClientState.of(arrays) for m, arrays in snapshot.clients.items()}
        self._versions = dict(snapshot.versions)
        self._traffic = snapshot.traffic
        self._round = (-1, set())

    def ask(self, request: Request, clients: Sequence[ClientId]) -> list[Reply]:
        """Ask these clients; return one reply each, in order of client id."""
        replies = self.answers(request.plain(), sorted(clients))
        self._count(request, replies)
        return replies

    def answers(self, request: Request, clients: Sequence[ClientId]) -> list[Reply]:
        """Return the replies to a request with plain arrays; nothing is counted."""
        self._forget_last_round(request.round, clients)
        members = [(self.clients[m], self.state(m)) for m in clients]
        shared = pooled(members, request) if self.pool and members else {}
        replies = []
        for own, state in members:
            reply = self._refusal(own, state, request)
            if reply is None:
                reply, self.states[own.id] = answer(own, state, request, shared.get(own.id))
            replies.append(reply)
        return replies

    def _count(self, request: Request, replies: Sequence[Reply]) -> None:
        """Count what travels, and note which versions clients have from now on."""
        up, down = 0, 0
        sent: dict[tuple[tuple[str, int], ...], tuple[int, Mapping[str, int]]] = {}
        for reply in replies:
            known = tuple(self._versions.get(reply.client, {}).items())
            if known not in sent:
                found = request.delivery(dict(known))
                sent[known] = found.num_bytes, found.versions
            size, versions = sent[known]
            down += size
            up += reply.num_bytes()
            if versions:
                self._versions[reply.client] = {**dict(known), **versions}
        self._traffic += Traffic(up, down, 1)

    def _refusal(self, client: Client, state: ClientState, request: Request) -> Reply | None:
        """Hold a request against the policy, where there is one."""
        if self.guard is None:
            return None
        asked = self._asked.get(client.id, Asked())
        try:
            self._asked[client.id] = self.guard.admit(client, state, request, asked)
        except Refused as error:
            return Reply(client.id, self.sizes[client.id], error=str(error))
        return None

    def _forget_last_round(self, k: int, clients: Sequence[ClientId]) -> None:
        """Drop the models of past rounds: memory is for one cohort, not for all clients."""
        last, members = self._round
        if k != last:
            for client in members & self.states.keys():
                self.states[client] = replace(self.states[client], y=None)
            members = set()
        self._round = (k, members | set(clients))
