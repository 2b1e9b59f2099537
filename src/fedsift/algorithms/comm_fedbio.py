"""Algorithm 1, Comm-FedBiO: local steps, hypergradient, outer step.

    y_k+1 = FedAvg round from (x_k, y_k)                                   lines 3-10
    v     ≈ (∇²_yy G(x_k, y_k+1))⁻¹ ∇_y F(x_k, y_k+1)                      line 11 or 12
    x_k+1 = P(x_k − η (∇_x F − ∇²_xy G(x_k, y_k+1) v))                     line 13

If x is private (sample weights), client m does its own part of line 13 and sends nothing of it; F
then must not depend on x. If x is shared, clients send ∇²_xy g_m v and the server steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedsift.algorithms.bilevel import BILEVEL, outer_of, weighting_of, with_head_start
from fedsift.algorithms.fedavg import draw_cohort, local_of, train_round
from fedsift.algorithms.method import Method
from fedsift.algorithms.outer_step import OuterSchedule, OuterStep, TotalSamples
from fedsift.algorithms.state import Algorithm, RoundInfo, Server, ServerState
from fedsift.hypergradient import Estimate, Estimator, Point
from fedsift.hypergradient.settings import EstimatorRow
from fedsift.keys import BuildContext, Settings
from fedsift.messages import Cohort, Federation, Request, scalars_of
from fedsift.problem import outer_gradients
from fedsift.problem.sgd import LocalSteps


@dataclass(frozen=True)
class CommFedBiO:
    """Algorithm 1 with any estimator of the hypergradient."""

    estimator: Estimator
    local: LocalSteps = LocalSteps()
    outer: OuterSchedule = OuterStep()

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        # Step 1: local steps from y_k, averaged.
        cohort = draw_cohort(federation, server, k)
        answers, y = train_round(cohort, state, self.local, k)

        # Step 2: the server's own gradient of F at y_k+1.
        x = state.x if state.x is not None else y.new_zeros(0)
        gx, gy = outer_gradients(server.problem, x, y, server.validation)

        # Step 3: v, with the help of the cohort.
        point = Point(y, gy, k, state.x)
        estimate, solver = self.estimator.estimate(cohort, point, state.solver)

        # Step 4: the outer step, at the clients if x is theirs.
        if estimate.usable:
            x_next = self._outer_step(cohort, server, point, estimate, gx)
        else:
            x_next = state.x
        metrics = {
            "train_loss": answers.mean_scalar("loss"),
            "residual": estimate.residual,
            "v_norm": float(estimate.v.norm()),
            "solver_step_scale": solver.step_scale,
        }
        events = answers.events + estimate.events
        return RoundInfo(metrics, events), ServerState(y, x_next, solver)

    def _outer_step(
        self, cohort: Cohort, server: Server, point: Point, estimate: Estimate, gx: Tensor
    ) -> Tensor | None:
        move = self.outer.at_round(server, point.y, point.round)
        total = TotalSamples(sum(cohort.federation.sizes.values()))
        scalars = {**estimate.direction_scalars, **scalars_of(move, total)}
        request = Request("outer", point.round, estimate.direction_arrays, scalars)
        answers = cohort.ask(request)
        if point.x is None:
            return None
        hypergradient = gx - answers.mean("cross")
        return server.problem.project(point.x - move.change(hypergradient))


def with_estimator(row: EstimatorRow) -> Method:
    """Return the method that is Algorithm 1 with an estimator of the table."""

    def build(settings: Settings, context: BuildContext) -> Algorithm:
        estimator = row.build(settings, context)
        algorithm = CommFedBiO(estimator, local_of(settings), outer_of(settings))
        return with_head_start(settings, algorithm)

    groups = (*BILEVEL, *row.groups)
    return Method(row.text, groups, build, learns_weights=True, weighting=weighting_of)
