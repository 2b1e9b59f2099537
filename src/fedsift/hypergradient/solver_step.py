"""The server's half of one solver iteration (Algorithm 2, lines 6-9), and its safety net.

    S_G = Σ_m (N_m / Σ N) S(∇²_yy g_m v)
    Δ   = U(α S_G + S(e)),   v' = v − (Δ + α δ v − α ∇_y F),   S(e') = α S_G + S(e) − S(Δ)

δ is the damping: its part of the product is the server's own and needs no compression, like ∇_y F.
These lines need α L ≤ O(k / d), L being the largest curvature, k of d what the compressor keeps;
with more they diverge, and silently. So the residual (``residual.py``) and the growth of the error
are watched; on divergence v and e go to zero and the step is halved. What is worse than v = 0
without being divergence goes on, but is not used: ``Measured.scale``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fedsift.compress import Feedback
from fedsift.hypergradient.estimate import SolverState
from fedsift.hypergradient.residual import Judge, Measured
from fedsift.messages import Answers
from fedsift.versioned import Step

UNSEEN = Measured()
NEGATIVE = "the curvature along v is negative; use curvature 'gauss-newton' or raise the damping"


@dataclass(frozen=True)
class Guard:
    """When to call the solver diverged.

    A residual of 1 is that of v = 0. Warm starts overshoot it for a while when ∇_y F shrinks
    between rounds; beyond ``residual`` it is faster to begin again. ``error`` bounds the error
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
class Update:
    """One iteration's outcome: the next v, and what was ``seen`` of the one before, by its P.

    ``trouble`` says why the next must not be used, ``step`` how it came about.
    """

    v: Tensor
    memory: Tensor | None = None
    product: Tensor | None = None
    seen: Measured = UNSEEN
    curvature: float = 0.0
    trouble: str | None = None
    step: Step | None = None


def update_v(
    feedback: Feedback,
    answers: Answers,
    v: Tensor,
    outer_gradient: Tensor,
    memory: Tensor | None,
    *,
    step: float,
    damping: float,
    guard: Guard,
    judge: Judge,
) -> Update:
    """Do lines 6-9 with the products that the clients have sent."""
    product = judge.product(answers)
    seen = judge.measured(product)
    payloads, shares = answers.payloads("product"), answers.shares
    right = outer_gradient - damping * v
    total = float(sum(reply.num_samples for reply in answers.replies))
    delta, memory = feedback.server(payloads, shares, step, memory, right, total)
    size = max(float(outer_gradient.norm()), 1e-30)
    error = feedback.error(memory, answers.mean_scalar("error")) / (step * size)
    taken = Step(delta, outer_gradient, step, damping)
    v = taken.taken(v)
    curvature = answers.mean_scalar("curvature")
    trouble = guard.verdict(seen.residual, error, v)
    return Update(v, memory, product, seen, curvature, trouble, taken)


def after_losses(
    state: SolverState, feedback: Feedback, asked: int, answers: Answers
) -> SolverState:
    """Return the state for the next iteration; a lost reply may leave both sides of EF21 apart."""
    tracks = feedback.form == "ef21" and not feedback.poolable
    return state.without_memory() if tracks and len(answers.replies) < asked else state


def step_back(state: SolverState, update: Update, step: float, k: int) -> tuple[str, SolverState]:
    """Forget v and the error, halve the step; return a sentence about it."""
    advice = NEGATIVE if update.curvature < 0 else "lower solver_lr, the rate or the heavy hitters"
    sentence = (
        f"the solver diverged in round {k + 1} ({update.trouble}); v and its error were reset and "
        f"the step went from {step:.3g} to {step / 2:.3g}: {advice}"
    )
    # The epoch goes on counting: what clients have kept belongs to the system that was given up.
    fresh = SolverState(
        epoch=state.epoch + 1, step_scale=state.step_scale / 2, resets=state.resets + 1
    )
    return sentence, fresh
