"""The control of every estimator: no Hessian at all, v = α ∇_y F.

    ∇h ≈ ∇_x F − α ∇²_xy G ∇_y F

It is Algorithm 2 with v_0 = 0 and one iteration, written as what it is: no product, no exchange. A
sample is bad if a step along its gradient raises the clean loss. With the scale-free outer step α
does not matter; it is there for the outer rule `gradient`. What an estimator adds to Algorithm 1
is what it adds to this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedsift.hypergradient.estimate import CurvatureSettings, Estimate, Point, SolverState
from fedsift.hypergradient.products import exact_residual
from fedsift.hypergradient.settings import (
    CurvatureKeys,
    EstimatorRow,
    ResidualKeys,
    StepKeys,
    curvature_of,
)
from fedsift.keys import BuildContext, Settings, number
from fedsift.messages import Cohort


@dataclass(frozen=True)
class NoHessian:
    """v = α ∇_y F; the matrix is asked for only where the residual is to be measured."""

    step: float = 0.1
    curvature: CurvatureSettings = CurvatureSettings()
    check_residual: bool = False

    def estimate(
        self, cohort: Cohort, point: Point, state: SolverState
    ) -> tuple[Estimate, SolverState]:
        """Return v, and its residual where it is measured."""
        v, residual = self.step * point.outer_gradient, None
        if self.check_residual:
            residual = exact_residual(cohort, point, v, self.curvature)
        estimate = Estimate(
            v=v,
            residual=residual,
            residual_is_exact=self.check_residual,
            iterations=0,
            direction_arrays={**point.arrays(self.check_residual), "v": v},
        )
        return estimate, replace(state, v=v)


def build(settings: Settings, context: BuildContext) -> NoHessian:  # noqa: ARG001
    """Build it from its keys."""
    step, check = number(settings[StepKeys].solver_lr), settings[ResidualKeys].check_residual
    return NoHessian(step, curvature_of(settings), check)


NO_HESSIAN = EstimatorRow(
    "the control: Algorithm 1 with the clean gradient in place of v, no Hessian products",
    (StepKeys, CurvatureKeys, ResidualKeys),
    build,
)
