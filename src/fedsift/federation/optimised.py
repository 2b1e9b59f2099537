"""A method whose server steps x and y by optimisers of its own (``algorithms/optimizers.py``).

    x_k+1 = P(x_k − d(η ∇h)),        y_k+1 = y_k − d(−Σ_m (N_m / Σ N) (y^m_T − y_k))

No method knows of it. For x the method's projection is left to this layer, so that what the method
subtracts is Δ. For y every reply gets the optimiser's step as its update: the mean of equal replies
is that reply. Both keep their state among what the server keeps, so checkpoints have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from fedsift.algorithms import Algorithm, RoundInfo, Server, ServerState
from fedsift.algorithms.optimizers import Optimizer, State
from fedsift.federation.drift import TRAINS
from fedsift.federation.layer import Layer
from fedsift.messages import Answers, ClientId, Federation, Reply, Request

INNER, OUTER = "inner_optimizer.", "outer_optimizer."  # of arrays among what the server keeps
UPDATE = "update"


@dataclass(frozen=True)
class Optimised:
    """A method whose mean update of y and whose step of a shared x go through optimisers."""

    algorithm: Algorithm
    inner: Optimizer
    outer: Optimizer

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        layer = _Stepped(federation, self.inner, _part(state, INNER))
        own = {n: a for n, a in state.own.items() if not n.startswith((INNER, OUTER))}
        free = replace(server, problem=_Unprojected(server.problem))
        info, after = self.algorithm.round(layer, free, replace(state, own=own), k)
        x, memory = after.x, _part(state, OUTER)
        if state.x is not None and x is not None:
            change, memory = self.outer.change(state.x - x, memory)
            x = server.problem.project(state.x - change)
        kept = {f"{INNER}{n}": a for n, a in layer.state.items()}
        kept |= {f"{OUTER}{n}": a for n, a in memory.items()}
        return info, replace(after, x=x, own={**after.own, **kept})


def _part(state: ServerState, start: str) -> State:
    return {n.removeprefix(start): a for n, a in state.own.items() if n.startswith(start)}


@dataclass(frozen=True, eq=False)
class _Unprojected:
    """A problem whose x may be anywhere."""

    problem: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.problem, name)

    def project(self, x: Tensor) -> Tensor:
        """Leave x as it is."""
        return x


class _Stepped(Layer):
    """A federation whose updates are the optimiser's steps."""

    def __init__(self, inner: Federation, optimizer: Optimizer, state: State) -> None:
        super().__init__(inner)
        self.optimizer, self.state = optimizer, state

    def ask(self, request: Request, clients: Sequence[ClientId]) -> list[Reply]:
        """Replace the updates of a request that trains by the step that their mean leads to."""
        replies = self.inner.ask(request, clients)
        good = [reply for reply in replies if reply.error is None]
        if request.action not in TRAINS or self.optimizer.is_plain or not good:
            return replies
        change, self.state = self.optimizer.change(-Answers(tuple(good)).mean(UPDATE), self.state)
        return [
            r if r.error is not None else replace(r, arrays={**r.arrays, UPDATE: -change})
            for r in replies
        ]
