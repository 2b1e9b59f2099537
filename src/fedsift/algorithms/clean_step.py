"""Clean step (ours): one model, no Hessian product; a sample is bad if the clean set unlearns it.

In round k client m receives w'_k and w_k, and does at (x_k, w'_k)

    w^m_T   from T local steps from w'_k
    x_k+1 = P(x_k − η ∇h),      ∂h/∂x_j = λ (ℓ_j(w'_k) − ℓ_j(w_k)) / N

ℓ_j being ∂ g / ∂ x_j, whatever the problem's x is. The server then steps

    w_k+1  = w'_k + Σ_m (N_m / Σ N) (w^m_T − w'_k)
    w'_k+1 = w_k+1 after S steps of size γ T / (λ S) on F             ``clean_steps.py``

Two forward passes per sample and one exchange; w' is the model. As w' − w ≈ −(γ T / λ) ∇_y F, the
score is ⟨∇ℓ_j, v⟩ with v = γ T ∇_y F to first order: that of `no-hessian`. What is added is that
the model learns from the clean set. `first-order` solves for the curvature as well, with a second
model.

Where F grew in the server's own steps, these are taken back, and no x moves in the next round.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedsift.algorithms.bilevel import BILEVEL, outer_of, weighting_of, with_head_start
from fedsift.algorithms.clean_steps import (
    CleanStepKeys,
    CleanSteps,
    clean_steps_of,
    judged,
    outer_loss,
)
from fedsift.algorithms.fedavg import draw_cohort, local_of, next_y
from fedsift.algorithms.method import Method
from fedsift.algorithms.outer_step import OuterSchedule, OuterStep, TotalSamples
from fedsift.algorithms.state import Algorithm, RoundInfo, Server, ServerState
from fedsift.keys import BuildContext, Settings
from fedsift.messages import Federation, Request, scalars_of
from fedsift.problem import outer_gradients
from fedsift.problem.sgd import LocalSteps


@dataclass(frozen=True)
class CleanStep:
    """One exchange per round."""

    clean: CleanSteps = CleanSteps()
    local: LocalSteps = LocalSteps()
    outer: OuterSchedule = OuterStep()

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        # Step 1: the one exchange, at (x_k, w'_k).
        folds, base = self.clean.folds(server), state.own.get("base")
        cohort = draw_cohort(federation, server, k)
        move = self.outer.at_round(folds.judging(server), state.y, k)
        arrays = {"y": state.y} if base is None else {"y": state.y, "base": base}
        if state.x is not None:
            arrays["x"] = state.x
        total = TotalSamples(sum(federation.sizes.values()))
        scalars = scalars_of(self.local, move, self.clean.contrast, total)
        answers = cohort.ask(Request("clean-step", k, arrays, scalars))

        # Step 2: x, where it is shared; private parts have been stepped by their clients.
        x = state.y.new_zeros(0) if state.x is None else state.x
        x_next = state.x
        if state.x is not None and base is not None:
            gx, _ = outer_gradients(server.problem, state.x, state.y, folds.part)
            change = move.change(gx - answers.mean("cross"))
            x_next = server.problem.project(state.x - change)

        # Step 3: w, and w' by the server's own steps.
        w = next_y(state, answers, self.local, k)
        y = self.clean.take(server, x, w, folds.part, self.local, k)
        before, after = (outer_loss(server, x, at, folds.glance) for at in (w, y))
        own, events = {**folds.kept, "base": w}, answers.events
        if not after <= before:
            y, own = w, folds.kept
            events += (
                f"the server's steps on the clean set were taken back in round {k + 1}: its loss "
                f"went from {before:.3g} to {after:.3g}; lower inner_lr or raise penalty",
            )
        metrics = {"train_loss": answers.mean_scalar("loss"), **judged(server, x, y, folds)}
        return RoundInfo(metrics, events), replace(state, y=y, x=x_next, own=own)


def build(settings: Settings, context: BuildContext) -> Algorithm:  # noqa: ARG001
    """Build it from its keys."""
    algorithm = CleanStep(clean_steps_of(settings), local_of(settings), outer_of(settings))
    return with_head_start(settings, algorithm)


METHOD = Method(
    "ours: a sample is bad if the server's steps on the clean set raise its loss; one model",
    (*BILEVEL, CleanStepKeys),
    build,
    learns_weights=True,
    means_only=True,
    weighting=weighting_of,
    general=True,
    asks="clean-step",
)
