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

Departures. The damping's part of the product is the server's own, uncompressed, as ∇_y F is. With
v_0 = 0 the first product is zero and no exchange is made for it. A warm start
keeps v and e across calls. Lines 7-9 diverge when U returns more noise than signal, and then
silently: so the residual and the growth of v and of the error are watched, and on divergence the
solver steps back (v and e to zero, step halved), says so, and never returns a non-finite number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedsift.compress import CountSketch, Payload
from fedsift.compress.error_feedback import Feedback
from fedsift.hypergradient.estimate import (
    CurvatureSettings,
    Estimate,
    Point,
    SolverState,
    relative,
)
from fedsift.hypergradient.products import exact_residual, product_request
from fedsift.messages import Answers, Cohort, sample_cohort


@dataclass(frozen=True)
class Constant:
    """α_i = step; the last iterate is the answer."""

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
class Guard:
    """When to call the solver diverged.

    A residual of 1 is that of v = 0. Warm starts overshoot it for a while when ∇_y F shrinks
    between rounds; beyond ``residual`` the estimate is worse than none. ``error`` bounds the error
    memory relative to α ‖∇_y F‖: a stable error feedback keeps it of the order of the rate.
    """

    residual: float = 30.0
    error: float = 3000.0

    def verdict(self, residual: float, error: float, v: Tensor) -> str | None:
        """Return what is wrong, or None."""
        finite = math.isfinite(residual) and math.isfinite(error)
        if not (finite and bool(torch.isfinite(v).all())):
            return "a number became infinite"
        if residual > self.residual:
            return f"the residual reached {residual:.3g}"
        if error > self.error:
            return f"the compression error reached {error:.3g} steps"
        return None


@dataclass(frozen=True)
class Iterative:
    """Algorithm 2 with any compressor; where its error is kept is the feedback's affair."""

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
        step_info = _Step(v=torch.zeros_like(b), memory=memory)
        events: list[str] = []
        asked = False
        for i in range(self.iterations):
            step = self.schedule(i) * state.step_scale
            if v is None:
                v = step * b  # the product with v_0 = 0 is zero: nothing to ask
                continue
            if (w := self.schedule.weight(i)) is not None:
                average, weight_sum = average + w * v, weight_sum + w
            step_info = self._step(cohort, point, v, memory, i, step, fresh, not asked)
            asked, fresh = True, False
            events += step_info.events
            if step_info.trouble is not None:
                return _step_back(point, state, step_info, tuple(events), step)
            v, memory = step_info.v, step_info.memory
        assert v is not None
        answer = average / weight_sum if weight_sum else v
        residual = step_info.residual
        if self.check_residual:
            residual = exact_residual(cohort, point, answer, self.curvature)
        estimate = Estimate(
            v=answer,
            residual=residual,
            residual_is_exact=self.check_residual,
            iterations=self.iterations,
            numbers_sent=self.feedback.compressor.numbers,
            direction_arrays={**point.arrays(asked and not self.resample), "v": answer},
            advice=_NEGATIVE if step_info.curvature < 0 else None,
            events=tuple(events),
        )
        return estimate, replace(state, v=v, memory=memory, fresh=fresh)

    def _step(
        self,
        cohort: Cohort,
        point: Point,
        v: Tensor,
        memory: Tensor | None,
        i: int,
        step: float,
        fresh: bool,
        first: bool,
    ) -> _Step:
        """Do lines 4-9 once."""
        b = point.outer_gradient
        if self.resample:
            size = len(cohort.clients)
            key = (self.seed, point.round, "solver", i)
            cohort = sample_cohort(cohort.federation, size, cohort.min_clients, *key)
        # The model travels with the first product only, unless new clients are drawn each time.
        arrays = point.arrays(y_is_known=not (first or self.resample))
        bare = replace(self.curvature, damping=0.0)
        request = product_request(point, {**arrays, "v": v}, self.feedback, bare)
        extra = {"step": step, "fresh": fresh, "iteration": i}
        answers = cohort.ask(replace(request, scalars={**request.scalars, **extra}))
        payloads, shares = answers.payloads("product"), answers.shares
        delta, memory = self.feedback.server(payloads, shares, step, memory)
        right = b - self.curvature.damping * v
        residual = self._residual(payloads, shares, delta, step, right) * relative(right, b)
        error = self._error_norm(answers, memory) / max(step * float(b.norm()), 1e-30)
        v = v - (delta - step * right)
        return _Step(
            v=v,
            memory=memory,
            residual=residual,
            curvature=answers.mean_scalar("curvature"),
            trouble=self.guard.verdict(residual, error, v),
            events=answers.events,
        )

    def _residual(
        self, payloads: list[Payload], shares: list[float], delta: Tensor, step: float, b: Tensor
    ) -> float:
        """Estimate ‖Hv − b‖ / ‖b‖ from what the clients sent."""
        compressor = self.feedback.compressor
        if isinstance(compressor, CountSketch):  # linear: the sketch of Hv − ∇_y F is at hand
            difference = -compressor.compress(b).table
            for share, payload in zip(shares, payloads, strict=True):
                difference += share * compressor.check(payload).table
            return relative(compressor.norm(compressor.wrap(difference)), b)
        return relative(delta / step - b, b)

    def _error_norm(self, answers: Answers, memory: Tensor | None) -> float:
        """Return the norm of the error memory, wherever it is kept."""
        compressor = self.feedback.compressor
        if memory is not None and isinstance(compressor, CountSketch):
            return compressor.norm(compressor.wrap(memory))
        return answers.mean_scalar("error")


@dataclass(frozen=True)
class _Step:
    """One iteration's outcome."""

    v: Tensor
    memory: Tensor | None
    residual: float = 1.0
    curvature: float = 0.0
    trouble: str | None = None
    events: tuple[str, ...] = ()


_NEGATIVE = "the curvature along v is negative; use curvature 'gauss-newton' or raise the damping"


def _step_back(
    point: Point, state: SolverState, step_info: _Step, events: tuple[str, ...], step: float
) -> tuple[Estimate, SolverState]:
    """Forget v and the error, halve the step, and say so."""
    advice = (
        f"the solver diverged in round {point.round} ({step_info.trouble}); v and its error were "
        f"reset and the step went from {step:.3g} to {step / 2:.3g}: "
        + (
            _NEGATIVE
            if step_info.curvature < 0
            else "lower solver_lr, the rate or the heavy hitters"
        )
    )
    zero = torch.zeros_like(point.outer_gradient)
    estimate = Estimate(
        v=zero,
        residual=1.0,
        residual_is_exact=True,
        iterations=0,
        numbers_sent=0,
        direction_arrays={},
        usable=False,
        advice=advice,
        events=(*events, advice),
    )
    return estimate, SolverState(step_scale=state.step_scale / 2, resets=state.resets + 1)
