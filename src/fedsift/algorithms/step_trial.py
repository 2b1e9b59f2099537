"""Which step suits a model: a bound for heads; else the usual one, unless a trial objects.

A linear layer on fixed features has 1/L, L being Böhning's bound on the curvature of the centred
features of the clean set (``problem/linear_head.py``). Any other model:

    λ     = λ_max(Gauss-Newton + l2) at y_0, on clean samples (``problem/largest_curvature.py``)
    γ_0   = the number in [1 / 8λ, 16 / λ] that is nearest to 0.1
    γ_j   = 2^j γ_0, up from j = 1 while γ_j ≤ 2 / λ and trials get better, else down from j = −1
    ℓ_j   = losses of clean samples B, at the lowest mean within S steps from y_0 on the others, A
    γ     = the γ_j of lowest |j| with mean(ℓ_j − ℓ_best) ≤ 2 s.e.(ℓ_j − ℓ_best)

| symbol | here            | why                                                               |
|--------|-----------------|-------------------------------------------------------------------|
| 0.1    | `USUAL`         | suits standardised inputs and networks that keep their variance   |
| 1/8, 16| `LOW`, `HIGH`   | best steps times λ were 0.2 to 12 on six tasks; a network is thrown |
|        |                 | out of its valley at 4 to 12 / λ (Lewkowycz et al., 2020)         |
| 2      | `STABLE`        | gradient descent on a quadratic diverges beyond it; short trials  |
|        |                 | favour large steps, which learn wrong labels sooner               |
| S      | `STEPS`         | a CNN needs 60 to leave its start: after 30 the smallest look best |
| 2 s.e. | `CLEAR`         | of a paired difference: a few clean samples overfit sooner than all |
|        |                 | sites do, so only what is clearly worse leaves the usual step     |

The curvature alone does not do. At y_0 it is that of a random model and differs by a factor of
three between seeds; later, training raises or lowers it to about 2 / γ, whatever γ is. It gives
the scale, for inputs of any units; the trial does the rest. No sample that shaped a trial's model
judges it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from fedsift.algorithms.clean_set import fit, split_validation
from fedsift.algorithms.state import Server
from fedsift.errors import ConfigError, Diverged
from fedsift.problem.largest_curvature import largest_curvature
from fedsift.problem.linear_head import LinearHead, step_size
from fedsift.problem.sample_losses import sample_losses
from fedsift.problem.sgd import LocalSteps
from fedsift.randomness import generator

USUAL, LOW, STABLE, HIGH = 0.1, 0.125, 2.0, 16.0
STEPS, EVERY = 100, 10
CLEAR = 2.0
DOUBLINGS = 10  # the most, in one direction
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
        """Tell whether it is worse by more than twice the standard error of the difference."""
        difference = self.losses - other.losses
        mean, deviation = float(difference.mean()), float(difference.std())
        return not mean <= CLEAR * deviation / len(difference) ** 0.5


def find_step(server: Server, y: Tensor, local: LocalSteps) -> float:
    """Return γ for local steps from y; ``local`` has the size of their batches.

    To three digits, so that it does not depend on how sums were rounded.
    """
    return float(f"{bound_of_head(server) or by_trial(server, y, local):.3g}")


def bound_of_head(server: Server) -> float | None:
    """Return 1/L where only a linear layer on fixed features is trained; None for other models."""
    try:
        head, inputs = LinearHead.of(server.problem), server.validation.inputs
        features = head.centred(inputs, head.centre(inputs))
    except ConfigError:
        return None
    return step_size(features, float(getattr(server.problem, "l2", 0.0)))


def by_trial(server: Server, y: Tensor, local: LocalSteps) -> float:
    """Return γ by the curvature at y and trials on the clean set."""
    source = generator(server.seed, "curvature")
    curvature = largest_curvature(server.problem, y, server.validation, source)
    first = min(max(USUAL, LOW / curvature), HIGH / curvature)
    tried: dict[int, Trial] = {}
    if len(server.validation) >= FEWEST:
        tried = search(server, y, replace(local, lr=first), STABLE / curvature)
    best = min(tried.values(), key=lambda trial: trial.mean, default=None)
    nearest = sorted(tried, key=abs)
    return next((tried[j].step for j in nearest if best and not tried[j].behind(best)), first)


def search(server: Server, y: Tensor, local: LocalSteps, highest: float) -> dict[int, Trial]:
    """Try γ_j = 2^j γ_0, upwards to ``highest`` while it helps, else downwards."""
    parts = split_validation(server, 0.5, "step size")
    tried = {0: attempt(server, y, parts, local)}
    for way in (1, -1):
        for j in range(way, way * (DOUBLINGS + 1), way):
            step = local.lr * 2.0**j
            if way > 0 and step > highest:
                break
            tried[j] = attempt(server, y, parts, replace(local, lr=step))
            if not tried[j].mean < tried[j - way].mean:
                break
        if 1 in tried and tried[1].mean < tried[0].mean:
            break
    return tried


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
