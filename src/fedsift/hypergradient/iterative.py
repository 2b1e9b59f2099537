"""Algorithm 2: solve (∇²_yy G) v = ∇_y F by compressed gradient steps on q(v).

    S_G   = Σ_m (N_m / Σ N) S(∇²_yy g_m v_i)                 lines 4-6
    Δ     = U(α_i S_G + S(e_i))                              line 7
    v_i+1 = v_i − (Δ − α_i ∇_y F)                            line 8
    S(e_i+1) = α_i S_G + S(e_i) − S(Δ)                       line 9

| here            | paper                 |
|-----------------|-----------------------|
| ``iterations``  | I                     |
| ``schedule``    | α_i                   |
| ``memory``      | S(e_i), or e_m at the clients for Top-k |

Departures. With v_0 = 0 the first product is zero and no exchange is made for it. A warm start
keeps v and e across calls. Damping and divergence are dealt with in ``solver_step``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from fedsift.compress import COMPRESSORS, Feedback, feedback_for, make_compressor
from fedsift.hypergradient.estimate import CurvatureSettings, Estimate, Point, SolverState
from fedsift.hypergradient.products import Compression, exact_residual, product_request
from fedsift.hypergradient.settings import (
    CurvatureKeys,
    EstimatorRow,
    ResidualKeys,
    StepKeys,
    curvature_of,
)
from fedsift.hypergradient.solver_step import NEGATIVE, Guard, Update, step_back, update_v
from fedsift.keys import BuildContext, Keys, Settings, key, number
from fedsift.messages import Answers, Cohort, sample_cohort


@dataclass(frozen=True)
class Constant:
    """α_i = step; the last iterate is the result."""

    step: float

    def __call__(self, i: int) -> float:  # noqa: ARG002
        """Return α_i."""
        return self.step

    def weight(self, i: int) -> float | None:  # noqa: ARG002
        """Return None: iterates are not averaged."""
        return None


@dataclass(frozen=True)
class Theorem:
    """α_i = 8 / (μ (i + a)), iterates averaged with weight (i + a)² (Theorem 1)."""

    mu: float
    shift: float

    def __call__(self, i: int) -> float:
        """Return α_i."""
        return 8.0 / (self.mu * (i + self.shift))

    def weight(self, i: int) -> float | None:
        """Return w_i."""
        return (i + self.shift) ** 2


@dataclass(frozen=True)
class Iterative:
    """Algorithm 2 with any compressor; the feedback decides where its error is kept."""

    feedback: Feedback
    iterations: int = 1
    schedule: Constant | Theorem = Constant(0.1)
    curvature: CurvatureSettings = CurvatureSettings()
    warm_start: bool = True
    resample: bool = False
    check_residual: bool = False
    guard: Guard = Guard()
    seed: int = 0

    def estimate(
        self, cohort: Cohort, point: Point, state: SolverState
    ) -> tuple[Estimate, SolverState]:
        """Run I iterations from v_0 = 0, or from the last v if warm."""
        b = point.outer_gradient
        if not self.warm_start:
            state = replace(state, v=None, memory=None, fresh=True)
        v, memory, fresh = state.v, state.memory, state.fresh
        average, weight_sum = torch.zeros_like(b), 0.0
        last, events, asked = Update(b), list[str](), False
        for i in range(self.iterations):
            step = self.schedule(i) * state.step_scale
            if v is None:
                v = step * b  # the product with v_0 = 0 is zero: nothing to ask
                continue
            if (w := self.schedule.weight(i)) is not None:
                average, weight_sum = average + w * v, weight_sum + w
            # The model travels with the first product, unless new clients are drawn each time.
            y_is_known = asked and not self.resample
            answers = self._ask(cohort, point, v, i, step, fresh=fresh, y_is_known=y_is_known)
            asked, fresh = True, False
            events += answers.events
            last = update_v(
                self.feedback,
                answers,
                v,
                b,
                memory,
                step=step,
                damping=self.curvature.damping,
                guard=self.guard,
            )
            if last.trouble is not None:
                sentence, state = step_back(state, last, step, point.round)
                return _failed(b, sentence, events), state
            v, memory = last.v, last.memory
        assert v is not None
        answer = average / weight_sum if weight_sum else v
        residual = last.residual
        if self.check_residual:
            residual = exact_residual(cohort, point, answer, self.curvature)
        estimate = Estimate(
            v=answer,
            residual=residual,
            residual_is_exact=self.check_residual,
            iterations=self.iterations,
            direction_arrays={**point.arrays(asked and not self.resample), "v": answer},
            advice=NEGATIVE if last.curvature < 0 else None,
            events=tuple(events),
        )
        return estimate, replace(state, v=v, memory=memory, fresh=fresh)

    def _ask(
        self,
        cohort: Cohort,
        point: Point,
        v: Tensor,
        i: int,
        step: float,
        *,
        fresh: bool,
        y_is_known: bool,
    ) -> Answers:
        """Do lines 4-5: ask for the compressed products."""
        if self.resample:
            key = (self.seed, point.round, "solver", i)
            size = len(cohort.clients)
            cohort = sample_cohort(cohort.federation, size, cohort.min_clients, *key)
        bare = replace(self.curvature, damping=0.0)
        arrays = {**point.arrays(y_is_known), "v": v}
        compression = Compression.by(self.feedback, step, fresh=fresh)
        return cohort.ask(product_request(point, arrays, compression, bare))


def _failed(b: Tensor, sentence: str, events: list[str]) -> Estimate:
    """Return v = 0, marked as not to be used."""
    return Estimate(
        v=torch.zeros_like(b),
        residual=1.0,
        residual_is_exact=True,
        iterations=0,
        direction_arrays={},
        usable=False,
        advice=sentence,
        events=(*events, sentence),
    )


@dataclass(frozen=True)
class IterativeKeys(Keys):
    """The loop of Algorithm 2."""

    table: ClassVar[str] = "solver"
    iterations: int = key(1, "solver iterations I per round", low=1)
    schedule: str = key(
        "constant",
        "step size of iteration i; constant: solver_lr; theorem: 8 / (mu (i + shift)), and v is "
        "averaged",
        choices=lambda: tuple(SCHEDULES),
    )
    mu: float = key(1e-3, "μ of the schedule 'theorem'", low=0, open_low=True)
    shift: float = key(1e4, "a of the schedule 'theorem'", low=1)
    warm_start: bool = key(True, "keep v and its error between rounds")
    resample: bool = key(False, "draw new clients for every solver iteration")


SCHEDULES: dict[str, Callable[[Settings], Constant | Theorem]] = {
    "constant": lambda settings: Constant(number(settings[StepKeys].solver_lr)),
    "theorem": lambda settings: Theorem(settings[IterativeKeys].mu, settings[IterativeKeys].shift),
}


def with_compressor(name: str, text: str) -> EstimatorRow:
    """Return the row of Algorithm 2 with a compressor of the table."""

    def build(settings: Settings, context: BuildContext) -> Iterative:
        own = settings[IterativeKeys]
        return Iterative(
            feedback_for(make_compressor(name, settings, context)),
            own.iterations,
            SCHEDULES[own.schedule](settings),
            curvature_of(settings),
            warm_start=own.warm_start,
            resample=own.resample,
            check_residual=settings[ResidualKeys].check_residual,
            seed=context.seed,
        )

    groups = (IterativeKeys, StepKeys, CurvatureKeys, ResidualKeys)
    return EstimatorRow(text, (*COMPRESSORS[name].groups, *groups), build)


ITER_TOPK = with_compressor("topk", "Comm-FedBiO, Algorithm 2 with local Top-k")
ITER_SKETCH = with_compressor("count-sketch", "Comm-FedBiO, Algorithm 2 with Count-Sketch")
