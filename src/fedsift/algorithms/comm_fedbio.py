"""Algorithm 1, Comm-FedBiO: local steps, hypergradient, outer step.

    y_k+1 = FedAvg round from (x_k, y_k)                                   lines 3-10
    v     ≈ (∇²_yy G(x_k, y_k+1))⁻¹ ∇_y F(x_k, y_k+1)                      line 11 or 12
    x_k+1 = P(x_k − η (∇_x F − ∇²_xy G(x_k, y_k+1) v))                     line 13

If x is private (sample weights), client m does its own part of line 13 and sends nothing of it; F
then must not depend on x. If x is shared, clients send ∇²_xy g_m v and the server steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedsift.algorithms.bilevel import BILEVEL, outer_of, weighting_of, with_head_start
from fedsift.algorithms.fedavg import draw_cohort, local_of, train_round
from fedsift.algorithms.method import Method
from fedsift.algorithms.outer_gradients import outer_gradients_at
from fedsift.algorithms.outer_step import (
    Move,
    OuterSchedule,
    OuterStep,
    TotalSamples,
    hypergradient_size,
    scaled,
    seen_scale,
)
from fedsift.algorithms.state import Algorithm, RoundInfo, Server, ServerState
from fedsift.hypergradient import Estimate, Estimator, Point
from fedsift.hypergradient.settings import EstimatorRow
from fedsift.keys import BuildContext, Keys, Settings, key
from fedsift.messages import Cohort, Federation, Request, sample_cohort, scalars_of
from fedsift.problem.sgd import LocalSteps


@dataclass(frozen=True)
class CommFedBiO:
    """Algorithm 1 with any estimator of the hypergradient.

    Attributes:
        estimator: ``Exact``, ``Iterative`` or ``NonIterative``, or one of your own.
        local: The local steps on the inner loss.
        outer: The step of the outer variable.
        fresh_cohort: Whether other clients are drawn for the estimate and the outer step.
    """

    estimator: Estimator
    local: LocalSteps = LocalSteps()
    outer: OuterSchedule = OuterStep()
    fresh_cohort: bool = False

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        # Step 1: local steps from y_k, averaged.
        cohort = draw_cohort(federation, server, k)
        answers, y = train_round(cohort, state, self.local, k)

        # Step 2: the gradients of F at y_k+1.
        outer = outer_gradients_at(cohort, server, state.x, y, k)

        # Step 3: v, with the help of the cohort, or of a new one, as the listings have it.
        if self.fresh_cohort:
            drawn = (server.seed, k, "estimator")
            cohort = sample_cohort(federation, server.cohort, server.min_clients, *drawn)
        point = Point(y, outer.gy, k, state.x)
        estimate, solver = self.estimator.estimate(cohort, point, state.solver)

        # Step 4: the outer step, at the clients if x is theirs.
        x_next, own = state.x, dict(state.own)
        metrics: dict[str, float | None] = dict(outer.metrics)
        if estimate.usable:
            move = scaled(self.outer.at_round(server, y, k, outer.outputs), state, estimate.v)
            x_next, size, seen = self._outer_step(cohort, server, point, estimate, outer.gx, move)
            own |= seen
            metrics = {**metrics, **size}
        metrics |= {
            "train_loss": answers.mean_scalar("loss"),
            "residual": estimate.residual,
            "v_norm": float(estimate.v.norm()),
            "solver_step_scale": solver.step_scale,
            **estimate.metrics,
        }
        events = answers.events + outer.events + estimate.events
        return RoundInfo(metrics, events), ServerState(y, x_next, solver, own)

    def _outer_step(
        self,
        cohort: Cohort,
        server: Server,
        point: Point,
        estimate: Estimate,
        gx: Tensor,
        move: Move,
    ) -> tuple[Tensor | None, dict[str, float], dict[str, Tensor]]:
        """Return the next x, where it is shared; the size of ∇h; the scale of the step."""
        if point.x is not None and estimate.cross is not None:
            hypergradient = gx - estimate.cross
            x = server.problem.project(point.x - move.change(hypergradient))
            return x, {"hypergradient_norm": float(hypergradient.norm())}, {}
        total = TotalSamples(sum(cohort.federation.sizes.values()))
        scalars = {**estimate.direction_scalars, **scalars_of(move, total)}
        request = Request("outer", point.round, estimate.direction_arrays, scalars)
        answers = cohort.ask(request)
        if point.x is None:
            return None, hypergradient_size(answers), seen_scale(answers, estimate.v)
        hypergradient = gx - answers.mean("cross")
        x = server.problem.project(point.x - move.change(hypergradient))
        return x, hypergradient_size(answers, hypergradient), {}


@dataclass(frozen=True)
class CohortKeys(Keys):
    """Who helps the estimator."""

    table: ClassVar[str] = "solver"
    fresh_cohort: bool = key(
        False,
        "draw clients anew for the estimate and the outer step, as Algorithms 2 and 3 are listed; "
        "false: those of the local steps",
    )


def with_estimator(row: EstimatorRow) -> Method:
    """Return the method that is Algorithm 1 with an estimator of the table."""

    def build(settings: Settings, context: BuildContext) -> Algorithm:
        estimator = row.build(settings, context)
        fresh = settings[CohortKeys].fresh_cohort
        algorithm = CommFedBiO(estimator, local_of(settings), outer_of(settings), fresh)
        return with_head_start(settings, algorithm)

    groups = (*BILEVEL, *row.groups, CohortKeys)
    return Method(
        row.text,
        groups,
        build,
        learns_weights=True,
        weighting=weighting_of,
        general=True,
        outer_at_clients=True,
        means_only=row.means_only,
        asks=f"train outer-gradient {row.asks} outer",
    )
