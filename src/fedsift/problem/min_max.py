"""Min-max as a bilevel problem: min_x max_y Φ(x, y), concave in y.

    g_m(x, y) = −φ_m(x, y)        f_m(x, y) = φ_m(x, y)        Φ = Σ_m (N_m / N) φ_m

At y_x the gradient ∇_y Φ is zero, so v = 0 and ∇h = ∇_x Φ: what a solver adds vanishes there, and
repairs an inexact y before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fedsift.problem.loss_pair import Loss


@dataclass(frozen=True)
class MinMax:
    """x makes the payoff small, y makes it large.

    Attributes:
        payoff: φ_m(x, y, batch), concave in y.
        start: Where x starts.
        projection: Onto the x that are allowed.
        x_is_private: False: the server holds x.
    """

    payoff: Loss
    start: Tensor
    projection: Callable[[Tensor], Tensor] = lambda x: x
    x_is_private: bool = False

    def initial_x(self, batch: Any = None) -> Tensor:  # noqa: ARG002
        """Return the given start."""
        return self.start.clone()

    def project(self, x: Tensor) -> Tensor:
        """Apply the given projection."""
        return self.projection(x)

    def inner_loss(self, x: Tensor, y: Tensor, batch: Any) -> Tensor:
        """Return −φ_m(x, y)."""
        return -self.payoff(x, y, batch)

    def outer_loss(self, x: Tensor, y: Tensor, batch: Any) -> Tensor:
        """Return φ_m(x, y)."""
        return self.payoff(x, y, batch)
