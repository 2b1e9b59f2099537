"""Algorithm 2: solve (∇²_yy G) v = ∇_y F by compressed gradient steps on q(v).

    S_G   = Σ_m (N_m / Σ N) S(∇²_yy g_m v_i)                 lines 4-7
    Δ     = U(α_i S_G + S(e_i))                              line 8
    v_i+1 = v_i − (Δ − α_i ∇_y F)                            line 9
    S(e_i+1) = α_i S_G + S(e_i) − S(Δ)                       line 10

| here            | paper                 |
|-----------------|-----------------------|
| ``iterations``  | I                     |
| ``schedule``    | α_i                   |
| ``memory``      | S(e_i), or e_m at the clients for Top-k |

α L ≤ O(k / d) is needed, L being the largest curvature and k of d the numbers kept: by its shift a
with ``Theorem``, and a ``Constant`` step must be that small. With the feedback ``ef21`` a constant
step may stay; with the listing, and less so with Eq. 12 (``gradient``), v then stalls.

Departures. With v_0 = 0 the first product is zero and no exchange is made for it. The exchange that
this saves measures the last v: v_i is measured by the exchange that asks for ∇²_yy g_m v_i
(``residual.py``), and v_I, not v_I+1 which it leads to, is the result. A warm start keeps v_I+1 and
e for the next call, so that n calls of I iterations give v_nI, as one call of n I iterations does.
A v that is not surely better than v = 0 is shortened. Where that does not help either, α ∇_y F is
the result, which one more exchange measures, so that x moves on; the solver keeps its v.
Damping and divergence are dealt with in ``solver_step``.

With several iterations v does not travel: Δ and, once a round, ∇_y F do, and clients take line 8
too (``fedsift.versioned``), unless v itself is shorter, or the run compresses models more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedsift.compress import (
    COMPRESSORS,
    Compressor,
    Feedback,
    FeedbackKeys,
    chosen_feedback,
    feedback_for,
)
from fedsift.hypergradient.estimate import (
    CurvatureSettings,
    Estimate,
    Point,
    Scaled,
    SolverState,
)
from fedsift.hypergradient.products import (
    Compression,
    exact_residual,
    measure_request,
    product_request,
)
from fedsift.hypergradient.residual import Judge, Measured, Witness
from fedsift.hypergradient.settings import (
    CurvatureKeys,
    EstimatorRow,
    ResidualKeys,
    StepKeys,
    curvature_of,
    step_of,
)
from fedsift.hypergradient.solver_step import (
    NEGATIVE,
    Guard,
    Update,
    after_losses,
    step_back,
    update_v,
)
from fedsift.keys import BuildContext, Keys, Settings, key
from fedsift.messages import Answers, Cohort, Sendable, sample_cohort, scalars_of
from fedsift.randomness import derive
from fedsift.versioned import Step


@dataclass(frozen=True)
class Constant:
    """A constant step of Algorithm 2: α_i = step; the last iterate is the result.

    Attributes:
        step: α.

    Examples:
        >>> import fedsift as fs
        >>> fs.Constant(0.1)(7)
        0.1
    """

    step: float

    def __call__(self, i: int) -> float:  # noqa: ARG002
        """Return α_i."""
        return self.step

    def weight(self, i: int) -> float | None:  # noqa: ARG002
        """Return None: iterates are not averaged."""
        return None


@dataclass(frozen=True)
class Theorem:
    """The steps of Theorem 1: α_i = 8 / (μ (i + a)), iterates averaged with weight (i + a)².

    Attributes:
        mu: μ, by which the inner loss is strongly convex.
        shift: a.

    Examples:
        >>> import fedsift as fs
        >>> fs.Theorem(mu=2.0, shift=1.0)(3)
        1.0
    """

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
    """Algorithm 2 with any compressor; the feedback decides where its error is kept.

    Attributes:
        feedback: The compressor with its error feedback.
        iterations: I, per round.
        schedule: The steps α_i.
        curvature: Which matrix is used.
        warm_start: Whether v and its error are kept between rounds.
        resample: Whether new clients are drawn for every iteration.
        check_residual: Whether the residual is measured exactly, by one more exchange.
        guard: When the solver counts as diverged.
        seed: The seed of the independent sketch that measures the residual.
    """

    feedback: Feedback
    iterations: int = 1
    schedule: Constant | Theorem = Constant(0.1)
    curvature: CurvatureSettings = CurvatureSettings()
    warm_start: bool = True
    resample: bool = False
    check_residual: bool = False
    guard: Guard = Guard()
    seed: int = 0

    @classmethod
    def of(cls, compressor: Compressor, form: str = "listing", **rest: Any) -> Iterative:
        """Make it of a compressor and a form of error feedback: listing, gradient or ef21."""
        return cls(feedback_for(compressor, form), **rest)

    def estimate(
        self, cohort: Cohort, point: Point, state: SolverState
    ) -> tuple[Estimate, SolverState]:
        """Run I iterations from v_0 = 0, or from the last v if warm."""
        state = state if self.warm_start else state.from_zero()
        was_warm = state.v is not None
        run, state = self._iterations(cohort, point, state, self.iterations)
        sent, scale, residual = run.tried.answer()
        if was_warm and not bool(scale * sent.any()):
            sent, scale, residual, said = self._gradient(cohort, point, state)
            run = replace(run, events=(*run.events, *said))
        v = sent if scale == 1.0 else scale * sent
        if self.check_residual:
            residual = exact_residual(cohort, point, v, self.curvature)
        estimate = Estimate(
            v=v,
            residual=residual,
            residual_is_exact=self.check_residual,
            iterations=self.iterations,
            direction_arrays={**point.arrays(run.asked and not self.resample), "v": sent},
            direction_scalars={} if scale == 1.0 else scalars_of(Scaled(scale)),
            usable=bool(v.any()),
            advice=run.trouble or (NEGATIVE if run.curvature < 0 else None),
            events=run.events,
            metrics={"solver_lr": self.schedule(0)},
        )
        return estimate, state

    def _gradient(
        self, cohort: Cohort, point: Point, state: SolverState
    ) -> tuple[Tensor, float, float, tuple[str, ...]]:
        """Measure α ∇_y F, for a round in which nothing else is better than v = 0."""
        b, witness = point.outer_gradient, self._witness(point)
        v = self.schedule(0) * state.step_scale * b
        answers = cohort.ask(measure_request(point, {"v": v}, self.curvature, witness))
        judge = Judge.of(witness, b)
        seen = judge.measured(judge.product(answers))
        return v, seen.scale, seen.least, answers.events

    def _iterations(
        self, cohort: Cohort, point: Point, state: SolverState, count: int
    ) -> tuple[Run, SolverState]:
        """Do this many iterations, from v_0 = 0 or from the v that there is."""
        b, judge = point.outer_gradient, Judge.of(self._witness(point), point.outer_gradient)
        run = Run(Tried(b))
        for i in range(count):
            step, weight = self.schedule(i) * state.step_scale, self.schedule.weight(i)
            if state.v is None:  # the product with v_0 = 0 is zero: the first step is free
                run = replace(run, tried=run.tried.with_zero(weight))
                first = Step(torch.zeros_like(b), b, step, self.curvature.damping)
                state = self._led(replace(state, v=first.taken(first.delta)), first)
                if weight is not None:
                    continue
            assert state.v is not None
            # The model travels with the first product, unless new clients are drawn each time.
            drawn = self._drawn(cohort, point, i)
            answers = self._ask(drawn, point, state, i, step, run.asked and not self.resample)
            update = self._update(answers, state, point, i, step, judge)
            tried = run.tried.with_next(state.v, update, weight, judge)
            run = Run(tried, (*run.events, *answers.events), True, update.curvature)
            if update.trouble is not None:
                sentence, state = step_back(state, update, step, point.round)
                return replace(run, events=(*run.events, sentence), trouble=sentence), state
            state = replace(state, v=update.v, memory=update.memory, fresh=False)
            state = self._led(state, update.step)
            state = after_losses(state, self.feedback, len(drawn.clients), answers)
        return run, state

    def _led(self, state: SolverState, step: Step | None) -> SolverState:
        """Keep the step, by which clients make v themselves.

        It is no gain where ∇_y F would travel for one v, or where the right-hand side travels too.
        """
        pays = self.iterations > 1 and not self.feedback.needs_right
        return state.led_by(step) if pays and step is not None else state

    def _drawn(self, cohort: Cohort, point: Point, i: int) -> Cohort:
        """Return whom to ask in iteration i."""
        if not self.resample:
            return cohort
        key = (self.seed, point.round, "solver", i)
        return sample_cohort(cohort.federation, len(cohort.clients), cohort.min_clients, *key)

    def _ask(
        self, cohort: Cohort, point: Point, state: SolverState, i: int, step: float, known: bool
    ) -> Answers:
        """Do lines 4-6: ask for the compressed products; ``known``: the clients have y."""
        assert state.v is not None
        bare = replace(self.curvature, damping=0.0)
        v = state.sendable(self.curvature.damping)
        arrays: dict[str, Sendable] = {**point.arrays(known), "v": v}
        if self.feedback.needs_right:
            arrays["right"] = point.outer_gradient - self.curvature.damping * state.v
        turned = self.feedback.turned(point.round, i)
        compression = Compression.by(turned, step, epoch=state.epoch, fresh=state.fresh)
        return cohort.ask(product_request(point, arrays, compression, bare, self._witness(point)))

    def _update(
        self,
        answers: Answers,
        state: SolverState,
        point: Point,
        i: int,
        step: float,
        judge: Judge,
    ) -> Update:
        """Do lines 7-10."""
        assert state.v is not None
        return update_v(
            self.feedback.turned(point.round, i),
            answers,
            state.v,
            point.outer_gradient,
            state.memory,
            step=step,
            damping=self.curvature.damping,
            guard=self.guard,
            judge=judge,
        )

    def _witness(self, point: Point) -> Witness:
        return Witness(derive(self.seed, point.round, "residual"), self.curvature.damping)


@dataclass(frozen=True, eq=False)
class Tried:
    """The v that were measured in one call, as far as the answer depends on them.

    The last one, and the best one at the length that makes it no worse than v = 0; with weights the
    mean over all, which is measured by the mean of their P.
    """

    zero: Tensor
    last: tuple[Tensor, Measured] | None = None
    best: tuple[Tensor, Measured] | None = None
    total: Tensor | None = None
    product: Tensor | None = None
    weights: float = 0.0

    def with_zero(self, weight: float | None) -> Tried:
        """Add v_0 = 0: Theorem 1 has it in its mean."""
        return self if weight is None else replace(self, weights=weight)

    def with_next(self, v: Tensor, update: Update, weight: float | None, judge: Judge) -> Tried:
        """Add a v and what was seen of it."""
        seen, P = update.seen, update.product
        assert P is not None
        if weight is None:
            best = min(self.best or (v, seen), (v, seen), key=lambda one: one[1].least)
            return replace(self, last=(v, seen), best=best)
        weights = self.weights + weight
        total = weight * v if self.total is None else self.total + weight * v
        product = weight * P if self.product is None else self.product + weight * P
        mean = (total / weights, judge.measured(product / weights))
        return Tried(self.zero, mean, mean, total, product, weights)

    def answer(self) -> tuple[Tensor, float, float]:
        """Return the last v if it is surely better than v = 0, else the best.

        With it come the scale at which it may be used, and its residual then.
        """
        if self.last is None or self.best is None:
            return torch.zeros_like(self.zero), 1.0, 1.0
        v, seen = self.last if self.last[1].scale == 1.0 else self.best
        return v, seen.scale, seen.residual if seen.scale == 1.0 else seen.least


@dataclass(frozen=True, eq=False)
class Run:
    """What some iterations gave: the v tried, what was said, and the last curvature along v."""

    tried: Tried
    events: tuple[str, ...] = ()
    asked: bool = False
    curvature: float = 0.0
    trouble: str | None = None


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


SCHEDULES: dict[str, Callable[[IterativeKeys, float], Constant | Theorem]] = {
    "constant": lambda own, step: Constant(step),  # noqa: ARG005
    "theorem": lambda own, step: Theorem(own.mu, own.shift),  # noqa: ARG005
}


def with_compressor(name: str, text: str) -> EstimatorRow:
    """Return the row of Algorithm 2 with a compressor of the table."""

    def build(settings: Settings, context: BuildContext) -> Iterative:
        own = settings[IterativeKeys]
        feedback = chosen_feedback(name, settings, context, own.iterations)
        return Iterative(
            feedback,
            own.iterations,
            SCHEDULES[own.schedule](own, step_of(settings, context, feedback)),
            curvature_of(settings),
            warm_start=own.warm_start,
            resample=own.resample,
            check_residual=settings[ResidualKeys].check_residual,
            seed=context.seed,
        )

    groups = (FeedbackKeys, IterativeKeys, StepKeys, CurvatureKeys, ResidualKeys)
    read = (*COMPRESSORS[name].groups, *groups)
    asks = "product* measure product"
    return EstimatorRow(text, read, build, means_only=name != "topk", asks=asks)


ITER_TOPK = with_compressor("topk", "Comm-FedBiO, Algorithm 2 with local Top-k")
ITER_SKETCH = with_compressor("count-sketch", "Comm-FedBiO, Algorithm 2 with Count-Sketch")
