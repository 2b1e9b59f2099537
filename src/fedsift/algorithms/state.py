"""What the server holds, what a round returns, and what an algorithm is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from fedsift.hypergradient import SolverState
from fedsift.messages import Federation
from fedsift.problem import Problem


class AtClients:
    """Stands for a validation set that the server does not have: F = Σ_m (N_m / N) f_m."""


@dataclass(frozen=True)
class Server:
    """The server's fixed part: the problem, its clean validation set, how it draws clients.

    ``validation`` is ``AtClients()`` where the outer loss is made of the clients' own.
    """

    problem: Problem
    validation: Any
    cohort: int = 0
    min_clients: int = 1
    seed: int = 0


@dataclass(frozen=True)
class ServerState:
    """The server's changing part: y, x where it is shared, the solver's v and error.

    ``own`` is what only its method knows: a noise matrix, the model of another stage. ``sent`` is
    what the clients have of the arrays that they keep (``federation/compressed.py``); no method
    reads it.
    """

    y: Tensor
    x: Tensor | None = None
    solver: SolverState = SolverState()
    own: Mapping[str, Tensor] = field(default_factory=dict)
    sent: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class RoundInfo:
    """What a round reports: numbers for the log, sentences for a person."""

    metrics: Mapping[str, float | None] = field(default_factory=dict)
    events: tuple[str, ...] = ()


class Algorithm(Protocol):
    """One round of a method."""

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        ...
