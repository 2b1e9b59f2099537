"""What every hypergradient estimator takes and returns.

    ∇h(x) = ∇_x F − ∇²_xy G v,     (∇²_yy G) v = ∇_y F

An estimator finds v (or ω with v = S_1ᵀ ω) with the help of a cohort. The second half, the cross
product ∇²_xy g_m v, is done by each client from ``Estimate.direction``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from torch import Tensor

from fedsift.compress import Payload
from fedsift.messages import Cohort, Scalar, Sendable, scalar
from fedsift.versioned import ByStep, Step


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
    """Which matrix stands for ∇²_yy g_m.

    Attributes:
        kind: ``"hessian"`` or ``"gauss-newton"``.
        damping: Added to the diagonal.
        batch_size: How many samples a client draws per round for it; 0: all.
    """

    kind: str = scalar("curvature", default="hessian")
    damping: float = 0.0
    batch_size: int = scalar("curvature_batch", default=0)


@dataclass(frozen=True)
class SolverState:
    """What an estimator keeps between rounds.

    ``epoch`` numbers the systems: what clients kept in another one is invalid.
    ``fresh`` is True until clients have been asked for a product: v was 0 before.
    ``delta``, ``right`` and ``lr`` are those of the step that led to v, where clients may take it
    themselves (``fedsift.versioned``).
    """

    v: Tensor | None = None
    memory: Tensor | None = None
    epoch: int = 0
    fresh: bool = True
    step_scale: float = 1.0
    resets: int = 0
    delta: Tensor | None = None
    right: Tensor | None = None
    lr: float = 0.0

    def led_by(self, step: Step) -> SolverState:
        """Return the state with the step that led to its v."""
        return replace(self, delta=step.delta, right=step.right, lr=step.lr)

    def sendable(self, damping: float) -> Tensor | ByStep:
        """Return v, with the step that led to it where there is one."""
        assert self.v is not None
        if self.delta is None or self.right is None:
            return self.v
        return ByStep(self.v, Step(self.delta, self.right, self.lr, damping))

    def from_zero(self) -> SolverState:
        """Return the state without v and without any memory, here or at a client."""
        return SolverState(epoch=self.epoch + 1, step_scale=self.step_scale, resets=self.resets)

    def without_memory(self) -> SolverState:
        """Return the state with its v alone: what was kept, here or at a client, is dropped."""
        fresh = self.v is None
        return replace(self, memory=None, epoch=self.epoch + 1, fresh=fresh)


@dataclass(frozen=True)
class Scaled:
    """By how much clients multiply the v that they have, so that it need not be sent again."""

    scale: float = scalar("v_scale", default=1.0)


@dataclass(frozen=True)
class Estimate:
    """A solution of (∇²_yy G) v = ∇_y F, and how good it is.

    ``residual`` is ‖Hv − ∇_y F‖ / ‖∇_y F‖ of this v, within some per cent (``residual.py``), and
    None where there was no product; ``residual_is_exact`` is True where an exchange without
    compression measured it. ``usable`` is False where no v was found that is better than v = 0;
    ``advice`` is a sentence that says what to try. ``cross`` is ∇²_xy G v where it is known, so
    that clients need not be asked for it.
    """

    v: Tensor
    residual: float | None
    residual_is_exact: bool
    iterations: int
    direction_arrays: Mapping[str, Sendable]
    direction_scalars: Mapping[str, Scalar] = field(default_factory=dict)
    usable: bool = True
    advice: str | None = None
    events: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    cross: Tensor | None = None


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
