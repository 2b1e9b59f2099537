"""What a server makes of a step: the table of optimisers, for x and for y.

A method proposes a change Δ_k: η ∇h for x, minus the clients' mean update for y. With
direction d_k an optimiser moves along −d_k:

| name       | d_k                 | with                                                  | s    |
|------------|---------------------|-------------------------------------------------------|------|
| `sgd`      | s Δ_k               |                                                       | 1    |
| `momentum` | s m_k               | m_k = β m_k−1 + Δ_k                                   | 1    |
| `adam`     | s m̂_k / (√v̂_k + ε) | m_k = β m_k−1 + (1−β) Δ_k; v_k alike, with β₂ and Δ_k² | 0.01 |

β = 0.9, β₂ = 0.999, ε = 1e-8, hats divide by 1 − β^k. For y this is FedOpt
(Reddi et al., ICLR 2021). The step of `adam` is s alone: Δ counts by its direction, whatever the
method's own step size is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

BETA, BETA2, EPSILON = 0.9, 0.999, 1e-8
State = Mapping[str, Tensor]


def _sgd(change: Tensor, state: State) -> tuple[Tensor, State]:
    return change, state


def _momentum(change: Tensor, state: State) -> tuple[Tensor, State]:
    m = BETA * state["m"] + change if state else change
    return m, {"m": m}


def _adam(change: Tensor, state: State) -> tuple[Tensor, State]:
    zero = torch.zeros_like(change)
    k = int(state["k"]) + 1 if state else 1
    m = BETA * state.get("m", zero) + (1 - BETA) * change
    v = BETA2 * state.get("v", zero) + (1 - BETA2) * change.square()
    direction = (m / (1 - BETA**k)) / ((v / (1 - BETA2**k)).sqrt() + EPSILON)
    return direction, {"m": m, "v": v, "k": torch.tensor(k)}


@dataclass(frozen=True)
class Row:
    """d_k / s and the next state from Δ_k and the state, which is empty at first; a default s."""

    direction: Callable[[Tensor, State], tuple[Tensor, State]]
    step: float


OPTIMIZERS: dict[str, Row] = {
    "sgd": Row(_sgd, 1.0),
    "momentum": Row(_momentum, 1.0),
    "adam": Row(_adam, 0.01),
}


@dataclass(frozen=True)
class Optimizer:
    """An optimiser by name, with its step s; 0: that of the table."""

    name: str = "sgd"
    step: float = 0.0

    @property
    def is_plain(self) -> bool:
        """True where it takes the method's own step."""
        return self.name == "sgd" and self.step in {0.0, 1.0}

    def change(self, proposed: Tensor, state: State) -> tuple[Tensor, State]:
        """Return what to subtract for a proposed change, and the next state."""
        row = OPTIMIZERS[self.name]
        direction, after = row.direction(proposed, state)
        return (self.step or row.step) * direction, after
