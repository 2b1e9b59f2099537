"""First order: the penalty form of F2SA (Kwon et al., 2023) in one exchange; no Hessian product.

    y ≈ argmin G(x, ·)        z ≈ argmin G(x, ·) + F / λ
    ∇h ≈ ∇_x F(x, z) + λ (∂_x G(x, z) − ∂_x G(x, y)),     for weights λ (ℓ_j(z) − ℓ_j(y)) / N

A sample is bad if its loss is higher in a model that also learns the clean set. In round k client m
receives y_k and z_k, and does at (x_k, y_k, z_k)

    y^m_T, z^m_T   from T local steps each, on the same batches: their noise is in both
    x_k+1 = P(x_k − η ∇h)

The server takes the two means; z then does S steps of size γ T / (λ S) on F (``clean_steps.py``).
At a fixed point ∇G + ∇F / λ = 0 at z as long as γ T μ is small, and the bias of ∇h is O(1 / λ). In
directions of large curvature μ the local steps bring z back to y before the server's next steps, so
that z − y ≈ −(γ T / λ) ∇F there, as in ``clean_step``: fewer local steps if curvature matters. z is
the model. Two forward passes per sample, no forward mode: any module, any precision.

At their minima F(z) ≤ F(y). Where it is not so, z − y tells nothing: x does not move in the next
round. After ``PATIENCE`` such rounds, or where z is not finite, z starts again from y and λ is
halved, with which every error in z − y is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

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

PATIENCE = 3


@dataclass(frozen=True)
class FirstOrder:
    """One exchange per round; ``state.y`` is z, ``own`` has y, λ's scale and the guard's count."""

    clean: CleanSteps = CleanSteps()
    local: LocalSteps = LocalSteps()
    outer: OuterSchedule = OuterStep()

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        # Step 1: the one exchange, at (x_k, y_k, z_k); a y that is still z is not sent.
        folds, scale = self.clean.folds(server), _number(state.own, "scale", 1.0)
        clean = replace(self.clean, penalty=self.clean.penalty * scale)
        base, behind = state.own.get("base"), _number(state.own, "behind", 0.0)
        cohort = draw_cohort(federation, server, k)
        move = self.outer.at_round(folds.judging(server), state.y, k)
        if behind:
            move = replace(move, lr=0.0)
        arrays = {"y": state.y} if base is None else {"y": state.y, "base": base}
        if state.x is not None:
            arrays["x"] = state.x
        total = TotalSamples(sum(federation.sizes.values()))
        scalars = scalars_of(self.local, move, clean.contrast, total)
        answers = cohort.ask(Request("first-order", k, arrays, scalars))

        # Step 2: x, where it is shared; private parts have been stepped by their clients.
        x = state.y.new_zeros(0) if state.x is None else state.x
        x_next = state.x
        if state.x is not None and base is not None:
            gx, _ = outer_gradients(server.problem, state.x, state.y, folds.part)
            change = move.change(gx - answers.mean("cross"))
            x_next = server.problem.project(state.x - change)

        # Step 3: y, and z with the server's own steps.
        if base is None:
            y = z = next_y(state, answers, self.local, k)
        else:
            y = next_y(replace(state, y=base), answers, self.local, k, "base_update")
            z = state.y + answers.mean("update")
        z = clean.take(server, x, z, folds.part, self.local, k)

        # Step 4: the guard.
        own = {**folds.kept, "base": y, "scale": torch.tensor(scale, dtype=torch.float64)}
        losses = tuple(outer_loss(server, x, at, folds.glance) for at in (y, z))
        count = 0.0 if losses[1] <= losses[0] else behind + 1
        events = answers.events
        if count >= PATIENCE or not bool(torch.isfinite(z).all()):
            sentence, own["scale"] = _again(clean.penalty, scale, losses, k)
            z, count, events = y, 0.0, (*events, sentence)
            del own["base"]
        own["behind"] = torch.tensor(count, dtype=torch.float64)
        metrics = {
            "train_loss": answers.mean_scalar("loss"),
            "distance": float((z - y).norm() / y.norm().clamp(min=1e-30)),
            **judged(server, x, z, folds),
        }
        return RoundInfo(metrics, events), replace(state, y=z, x=x_next, own=own)


def _again(penalty: float, scale: float, losses: tuple[float, ...], k: int) -> tuple[str, Tensor]:
    """Return a sentence about z starting again, and the scale of λ from now on."""
    sentence = (
        f"z had left the clean set behind by round {k + 1} (F(z) {losses[1]:.3g}, F(y) "
        f"{losses[0]:.3g}); it starts again from y, and the penalty went from {penalty:.3g} to "
        f"{penalty / 2:.3g}: lower penalty or inner_lr"
    )
    return sentence, torch.tensor(scale / 2, dtype=torch.float64)


def _number(own: Mapping[str, Tensor], name: str, otherwise: float) -> float:
    return float(own[name]) if name in own else otherwise


def build(settings: Settings, context: BuildContext) -> Algorithm:  # noqa: ARG001
    """Build it from its keys."""
    algorithm = FirstOrder(clean_steps_of(settings), local_of(settings), outer_of(settings))
    return with_head_start(settings, algorithm)


METHOD = Method(
    "a sample is bad if its loss is higher in a model that also learns the clean set; two models",
    (*BILEVEL, CleanStepKeys),
    build,
    learns_weights=True,
    means_only=True,
    weighting=weighting_of,
    general=True,
    asks="first-order",
)
