"""Which step suits a model: two over its curvature, doubled while a trial on the clean set gains.

    λ     = λ_max(Gauss-Newton + l2) at y_0, on clean samples (``problem/largest_curvature.py``)
    γ_j   = 2^j / λ,  j = 1, 2, ..
    ℓ_j   = losses of clean samples B, at the lowest mean within S steps from y_0 on the others, A,
            with γ_j; the first γ_j that is clearly worse than the best so far is the last
    γ     = the smallest γ_j with mean(ℓ_j − ℓ_best) ≤ s.e.(ℓ_j − ℓ_best)

| symbol | here    | why                                                                         |
|--------|---------|-----------------------------------------------------------------------------|
| S      | `STEPS` | a CNN needs 60 to leave its start: after 30 the smallest steps look best     |
| s.e.   |         | of a paired difference: what B cannot tell apart is settled by caution       |

2 / λ is the largest stable step of gradient descent on a quadratic; networks and softmax take more.
How much more the curvature does not tell. At y_0 it is that of a random model and differs by a
factor of three between seeds; later, training raises or lowers it to about 2 / γ, whatever γ is, up
to the step that throws the model out of its valley (4 to 12 / λ: Lewkowycz et al., 2020). No sample
that shaped a trial's model judges it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedsift.algorithms.clean_set import fit, split_validation
from fedsift.algorithms.state import Server
from fedsift.errors import Diverged
from fedsift.problem.largest_curvature import largest_curvature
from fedsift.problem.sample_losses import sample_losses
from fedsift.problem.sgd import LocalSteps
from fedsift.randomness import generator

STEPS, EVERY = 100, 10
STABLE = 2.0  # over λ
DOUBLINGS = 6  # up to 128 / λ, far beyond what was stable anywhere
FEWEST = 20  # clean samples: half of fewer would not tell one step from another


@dataclass(frozen=True)
class Trial:
    """A step, and the losses of the samples that its model was not trained on."""

    step: float
    losses: Tensor

    @property
    def mean(self) -> float:
        """Their mean."""
        return float(self.losses.mean())

    def behind(self, other: Trial) -> bool:
        """Tell whether it is worse by more than the standard error of the difference."""
        difference = self.losses - other.losses
        mean, deviation = float(difference.mean()), float(difference.std())
        return not mean <= deviation / len(difference) ** 0.5


def find_step(server: Server, y: Tensor, local: LocalSteps) -> float:
    """Return γ for local steps from y; ``local`` has the size of their batches.

    To three digits, so that it does not depend on how sums were rounded.
    """
    return float(f"{_found(server, y, local):.3g}")


def _found(server: Server, y: Tensor, local: LocalSteps) -> float:
    source = generator(server.seed, "curvature")
    lowest = STABLE / largest_curvature(server.problem, y, server.validation, source)
    if len(server.validation) < FEWEST:
        return lowest
    parts = split_validation(server, 0.5, "step size")
    tried = [attempt(server, y, parts, replace(local, lr=lowest))]
    best = tried[0]
    for j in range(1, DOUBLINGS + 1):
        tried.append(attempt(server, y, parts, replace(local, lr=lowest * 2**j)))
        if tried[-1].mean < best.mean:
            best = tried[-1]
        elif tried[-1].behind(best):
            break
    return next(trial.step for trial in tried if not trial.behind(best))


def attempt(server: Server, y: Tensor, parts: tuple[Any, Any], local: LocalSteps) -> Trial:
    """Train from y on the first part; return the lowest losses of the second on the way."""
    best = Trial(local.lr, sample_losses(server.problem, y, parts[1]))
    source, local = generator(server.seed, "step size batches"), replace(local, steps=EVERY)
    for _ in range(STEPS // EVERY):
        try:
            y = fit(server, y, parts[0], local, source, "the trial of a step")
        except Diverged:
            break
        losses = sample_losses(server.problem, y, parts[1])
        if bool(losses.mean() < best.losses.mean()):
            best = Trial(local.lr, losses)
    return best
