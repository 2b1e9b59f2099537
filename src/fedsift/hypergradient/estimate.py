"""What every hypergradient estimator takes and returns.

    ∇h(x) = ∇_x F − ∇²_xy G v,     (∇²_yy G) v = ∇_y F

An estimator finds v (or ω with v = S_1ᵀ ω) with the help of a cohort. The second half, the cross
product ∇²_xy g_m v, is done by each client from ``Estimate.direction``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from fedsift.compress import Payload
from fedsift.messages import Cohort, Scalar, scalar


@dataclass(frozen=True)
class Point:
    """Where the hypergradient is wanted: y, ∇_y F there, and x if it is shared."""

    y: Tensor
    outer_gradient: Tensor
    round: int = 0
    x: Tensor | None = None

    def arrays(self, y_is_known: bool = False) -> dict[str, Payload]:
        """Return the arrays of a request at this point; a client keeps the y of the round."""
        arrays: dict[str, Payload] = {} if y_is_known else {"y": self.y}
        return arrays if self.x is None else {**arrays, "x": self.x}


@dataclass(frozen=True)
class CurvatureSettings:
    """Which matrix is used for ∇²_yy g_m, and on how many of a client's samples (0: all)."""

    kind: str = scalar("curvature", default="hessian")
    damping: float = 0.0
    batch_size: int = scalar("curvature_batch", default=0)


@dataclass(frozen=True)
class SolverState:
    """What an estimator keeps between rounds.

    ``fresh`` is True until clients have been asked: any error that they kept before is invalid.
    """

    v: Tensor | None = None
    memory: Tensor | None = None
    fresh: bool = True
    step_scale: float = 1.0
    resets: int = 0


@dataclass(frozen=True)
class Estimate:
    """A solution of (∇²_yy G) v = ∇_y F, and how good it is.

    ``residual`` is ‖Hv − ∇_y F‖ / ‖∇_y F‖; ``residual_is_exact`` is False where it was estimated
    from compressed numbers, and is then that of the last v a product was made with. ``usable`` is
    False where the solver failed; ``advice`` is a sentence that says what to try.
    """

    v: Tensor
    residual: float
    residual_is_exact: bool
    iterations: int
    direction_arrays: Mapping[str, Payload]
    direction_scalars: Mapping[str, Scalar] = field(default_factory=dict)
    usable: bool = True
    advice: str | None = None
    events: tuple[str, ...] = ()


class Estimator(Protocol):
    """Finds v with the help of a cohort."""

    def estimate(
        self, cohort: Cohort, point: Point, state: SolverState
    ) -> tuple[Estimate, SolverState]:
        """Return the estimate and what to keep for the next round."""
        ...


def relative(value: Tensor | float, reference: Tensor) -> float:
    """Return ‖value‖ / ‖reference‖, with 0/0 = 0."""
    top = float(value.norm()) if isinstance(value, Tensor) else float(value)
    bottom = float(reference.norm())
    if bottom == 0.0:
        return 0.0 if top == 0.0 else math.inf
    return top / bottom
