"""Single loop (ours, beyond the paper): FedAvg's one exchange serves the bilevel problem too.

v is kept across rounds. In round k client m receives (y_k, v_k) and does, from (x_k, y_k, v_k),

    y^m_T   from T local steps,      S(∇²_yy g_m v_k),      x_k+1 = P(x_k − η ∇h) with v_k

and the server then steps y and v:

    y_k+1 = y_k + Σ_m (N_m / Σ N) (y^m_T − y_k)
    Δ     = U(α S_G + S(e_k)),   v_k+1 = v_k − (Δ + α δ v_k − α ∇_y F(y_k))

With Top-k each client keeps a memory of its own products (``compress/ef21.py``). The residual that
is reported is that of v_k, along which x_k has moved: measured in the same exchange, by an
independent sketch (``hypergradient/residual.py``).

At a fixed point Hv = ∇_y F, ∇_y G = 0 and ∇h = 0: the same solution as Algorithm 1's.

It is close to methods that step y, v and x together: SOBA (Dagréou et al., NeurIPS 2022) in one
place, SimFBO (Yang, Xiao and Ji, NeurIPS 2023; ``simfbo.py``) with local steps of all three,
EF-SOBA (He et al., ICML 2024) with error feedback. Its own are FedAvg's local steps for y beside
one compressed step for v, an x that never leaves its site, and the guard. The control without
curvature is `no-hessian`.

Cost: the forward passes of the local steps serve product and scores too, J v is a difference of
forward passes, and at most ``scored`` samples of a client are scored per round, in turn
(``client/follow.py``).

Downlink: clients keep the last v, and get Top-k of the difference to it, at the rate ``downlink``
or the run's own (``federation/compressed.py``).
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedsift.algorithms.bilevel import BILEVEL, outer_of, weighting_of, with_head_start
from fedsift.algorithms.fedavg import draw_cohort, local_of, next_y
from fedsift.algorithms.method import Method
from fedsift.algorithms.outer_gradients import OuterToo, outer_gradients_at, replied
from fedsift.algorithms.outer_step import (
    OuterSchedule,
    OuterStep,
    ScoredKeys,
    Scoring,
    TotalSamples,
    hypergradient_size,
    scaled,
    seen_scale,
)
from fedsift.algorithms.state import Algorithm, AtClients, RoundInfo, Server, ServerState
from fedsift.compress import (
    CompressorKeys,
    Feedback,
    FeedbackKeys,
    RateKeys,
    chosen_feedback,
    compressor_groups,
)
from fedsift.hypergradient import CurvatureSettings, Guard, SolverState
from fedsift.hypergradient.products import Compression
from fedsift.hypergradient.residual import Judge, Witness
from fedsift.hypergradient.settings import CurvatureKeys, StepKeys, curvature_of, step_of
from fedsift.hypergradient.solver_step import Update, after_losses, step_back, update_v
from fedsift.keys import BuildContext, Settings
from fedsift.messages import Federation, Request, Sendable, scalars_of
from fedsift.problem import SampleWeighting
from fedsift.problem.protocol import part_of
from fedsift.problem.sgd import LocalSteps
from fedsift.problem.tangents import difference_error
from fedsift.randomness import derive
from fedsift.versioned import ByDifference

TRIED = 4  # clean samples on which differences are compared with forward mode
TOLERANCE = 0.1  # of ‖J v‖


@dataclass(frozen=True)
class SingleLoop:
    """One exchange per round."""

    feedback: Feedback
    downlink: float = 20.0
    step: float = 0.1
    curvature: CurvatureSettings = CurvatureSettings("gauss-newton", damping=0.5)
    local: LocalSteps = LocalSteps()
    outer: OuterSchedule = OuterStep()
    guard: Guard = Guard()
    scored: int = 0

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        # Step 1: the one exchange, at (x_k, y_k, v_k).
        cohort = draw_cohort(federation, server, k)
        feedback = self.feedback.turned(k)
        # F of the clients comes with their reply, unless what they compress needs its gradient.
        together = isinstance(server.validation, AtClients) and not feedback.needs_right
        outer = None
        if not together:
            outer = outer_gradients_at(cohort, server, state.x, state.y, k)
        clean = None if outer is None else outer.outputs
        v = state.y.new_zeros(len(state.y)) if state.solver.v is None else state.solver.v
        solver, step = state.solver, self.step * state.solver.step_scale
        move = scaled(self.outer.at_round(server, state.y, k, clean), state, v)
        witness = Witness(derive(server.seed, k, "residual"), self.curvature.damping)
        scoring, checked = self._scoring(server, state.y, v, k)
        arrays: dict[str, Sendable] = {
            **({} if state.x is None else {"x": state.x}),
            "y": state.y,
            "v": ByDifference(v, self.downlink),
        }
        if feedback.needs_right and outer is not None:
            arrays["right"] = outer.gy - self.curvature.damping * v
        scalars = scalars_of(
            *(self.local, replace(self.curvature, damping=0.0), move, witness, OuterToo(together)),
            Compression.by(feedback, step, epoch=solver.epoch, fresh=solver.fresh),
            TotalSamples(sum(federation.sizes.values())),
            scoring,
        )
        answers = cohort.ask(Request("step", k, arrays, scalars))
        outer = outer or replied(answers, None)

        # Step 2: y.
        y = next_y(state, answers, self.local, k)

        # Step 3: x, where it is shared; private parts have been stepped by their clients.
        x_next, hypergradient = None, None
        if state.x is not None:
            hypergradient = (
                answers.mean("hypergradient") if together else outer.gx - answers.mean("cross")
            )
            x_next = server.problem.project(state.x - move.change(hypergradient))

        # Step 4: v.
        update = update_v(
            feedback,
            answers,
            v,
            outer.gy,
            solver.memory,
            step=step,
            damping=self.curvature.damping,
            guard=self.guard,
            judge=Judge.of(witness, outer.gy),
        )
        solver, said = self._next(solver, update, outer.gy, k)
        if update.trouble is None:
            solver = after_losses(solver, feedback, len(cohort.clients), answers)
        metrics = {
            "train_loss": answers.mean_scalar("loss"),
            "residual": update.seen.residual,
            "v_norm": float(v.norm()),
            "solver_lr": self.step,
            "solver_step_scale": solver.step_scale,
            **hypergradient_size(answers, hypergradient),
            **outer.metrics,
        }
        own = {**state.own, **seen_scale(answers, v)}
        events = (*checked, *outer.events, *answers.events, *said)
        return RoundInfo(metrics, events), ServerState(y, x_next, solver, own)

    def _next(
        self, solver: SolverState, update: Update, gy: Tensor, k: int
    ) -> tuple[SolverState, tuple[str, ...]]:
        """Return the solver with its next v, and a sentence where it had to step back."""
        step = self.step * solver.step_scale
        if update.trouble is not None:
            sentence, solver = step_back(solver, update, step, k)
            return solver, (sentence,)
        if update.seen.scale == 0.0 and solver.v is not None:
            # v_k had nothing of the solution: begin again with α ∇_y F.
            return replace(solver.from_zero(), v=step * gy), ()
        return replace(solver, v=update.v, memory=update.memory, fresh=False), ()

    def _scoring(
        self, server: Server, y: Tensor, v: Tensor, k: int
    ) -> tuple[Scoring, tuple[str, ...]]:
        """Return how clients are to score, and a sentence where they may not use differences.

        The server tries it at (y_k, v_k) on a few clean samples: all clients then do the same.
        """
        problem, clean = server.problem, server.validation
        if self.curvature.kind != "gauss-newton" or not isinstance(clean, Sized) or not len(clean):
            return Scoring(self.scored), ()
        if not isinstance(problem, SampleWeighting):
            return Scoring(self.scored), ()
        few = part_of(clean, torch.arange(min(TRIED, len(clean))))
        error = difference_error(problem, y, few, v)
        if error <= TOLERANCE:
            return Scoring(self.scored, differences=True), ()
        return Scoring(self.scored), (
            f"J v by a difference of two forward passes is off by {error:.1%} in round {k + 1}; "
            "forward mode takes its place",
        )


def build(settings: Settings, context: BuildContext) -> Algorithm:
    """Build it from its keys."""
    name = settings[CompressorKeys].compressor
    if name == "auto":
        # Top-k's error is kept by the client: it is outdated in the next cohort, and takes memory.
        name = "count-sketch" if context.cohort else "topk"
    feedback = chosen_feedback(name, settings, context)
    algorithm = SingleLoop(
        feedback,
        settings[RateKeys].rate,
        step_of(settings, context, feedback),
        curvature_of(settings),
        local_of(settings),
        outer_of(settings),
        scored=settings[ScoredKeys].scored,
    )
    return with_head_start(settings, algorithm)


# Rate first: the downlink reads it whatever the compressor of the products is.
_COMPRESSION = (RateKeys, CompressorKeys, FeedbackKeys, *compressor_groups())
_SOLVER = dict.fromkeys((*_COMPRESSION, StepKeys, CurvatureKeys, ScoredKeys))
METHOD = Method(
    "ours: Algorithm 1 in one exchange per round",
    (*BILEVEL, *_SOLVER),
    build,
    learns_weights=True,
    means_only=True,
    weighting=weighting_of,
    general=True,
    outer_at_clients=True,
    asks="step",
    sends_differences=True,
)
