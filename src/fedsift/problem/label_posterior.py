"""Is a label right? Bayes' rule on a classifier's probabilities, with a rate of wrong labels.

    e_i     = log (1 − p_ℓ) / ((C − 1) p_ℓ)          log P(ℓ | wrong) / P(ℓ | right)
    P(right) = (1 − ρ) / ((1 − ρ) + ρ exp(e_i + δ))
    ρ(δ)    = argmax_ρ Σ_i log(1 − ρ + ρ exp(e_i + δ))

| symbol | meaning                                                                            |
|--------|------------------------------------------------------------------------------------|
| p_ℓ    | probability of the label ℓ; wrong labels are equally often of any other class       |
| ρ      | share of wrong labels at the site                                                   |
| δ      | optimism: what a model that was trained on a label has learned from it, in nats     |
| ρ(δ)   | increases with δ; a curve of it is its values at ``OPTIMISMS``                      |

A model that has seen no label of the site has δ = 0, so its ρ(0) is unbiased. The δ of a trained
model is about where both give the same ρ; how sure that is, ``known_optimism`` says:

    P(δ) ∝ exp(−½ (δ / 2)² − ½ ((ρ(δ) − ρ_0) / s)²),   δ ≥ 0

ρ_0 is the rate by the model that has seen no label and s its standard error. Where the trained
model leaves no doubt about the labels, ρ(δ) is flat, and the prior alone says what δ is: it then
matters little. The prior is wide: a label that is believed 2 nats too much has 7 times its odds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

LARGEST_OPTIMISM, POINTS, PRIOR_SPREAD = 6.0, 17, 2.0  # of δ, in nats
OPTIMISMS = tuple(LARGEST_OPTIMISM * (i / (POINTS - 1)) ** 2 for i in range(POINTS))
RATES = 200  # values of ρ at which its likelihood is computed
AT_ONCE = 2**16  # numbers
HALVINGS, EXACT = 40, 1e-10  # of ρ: where no Newton step is taken, so many are enough
LARGEST = 50.0  # of |e|: beyond it a label is certain


class Known(NamedTuple):
    """What is known of a rate ρ or of an optimism δ."""

    mean: float
    variance: float


class Weighed(NamedTuple):
    """What a round knows of a site's labels: P(right) and ρ(δ), of the samples ``at``; None: all.

    ``p`` are their probabilities of all classes, ``targets`` what they train on, ``curve`` has ρ at
    ``OPTIMISMS``.
    """

    at: Tensor | None
    p: Tensor
    right: Tensor
    targets: Tensor
    curve: Tensor

    def whole(self, n: int) -> Tensor:
        """Return the targets of all n samples, 0 for one that was not weighed."""
        if self.at is None:
            return self.targets
        rows = self.targets.new_zeros(n, self.targets.shape[1])
        return rows.index_put_((self.at,), self.targets)


def evidence(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Return e of every sample in float64, within ±50."""
    p = probabilities.double()
    given = p.gather(1, labels[:, None]).squeeze(1).clamp(1e-30, 1 - 1e-16)
    ratio = (-given).log1p() - given.log() - math.log(max(p.shape[1] - 1, 1))
    return ratio.clamp(-LARGEST, LARGEST)


def rates(found: Tensor, optimisms: Tensor) -> Tensor:
    """Return ρ(δ) for every δ, [..., δ] of samples [..., n], kept within what n samples can tell.

    With s = Σ_i g_i / (1 + ρ g_i), g_i = exp(e_i + δ) − 1, the root of ρ (1 − ρ) s, which is the
    mean of P(wrong) less ρ and nearly linear, by Newton's steps between known bounds.
    """
    gain = (found.unsqueeze(-2) + optimisms[:, None]).clamp(-LARGEST, LARGEST).expm1()
    n, low = found.shape[-1], torch.zeros_like(gain[..., 0])
    high, share = torch.ones_like(low), torch.full_like(low, 0.5)
    for _ in range(HALVINGS):
        each = gain / (1 + share.unsqueeze(-1) * gain)
        slope, bend, room = each.sum(dim=-1), each.square().sum(dim=-1), share * (1 - share)
        low, high = torch.where(slope > 0, share, low), torch.where(slope > 0, high, share)
        step = room * slope / (room * bend - (1 - 2 * share) * slope)
        newton = share + step
        inside = (newton >= low) & (newton <= high)
        last, share = share, torch.where(inside, newton, (low + high) / 2)
        if share.device.type == "cpu" and float((share - last).abs().max()) < EXACT:
            break
    least = 1 / (n + 2)
    return share.clamp(least, 1 - least)


def rate(found: Tensor, optimism: float = 0.0) -> float:
    """Return ρ(δ)."""
    return float(rates(found, found.new_tensor([optimism]))[0])


def known_optimism(rates_at: Tensor, share: float, error: float) -> Known:
    """Return mean and variance of δ, given ρ at ``OPTIMISMS``, and ρ_0 with its error s."""
    points = np.linspace(0.0, LARGEST_OPTIMISM, 601)
    misses = (np.interp(points, OPTIMISMS, rates_at.double().cpu().numpy()) - share) / error
    logs = -0.5 * (points / PRIOR_SPREAD) ** 2 - 0.5 * misses**2
    mass = np.exp(logs - logs.max())
    mass /= mass.sum()
    mean = float(mass @ points)
    return Known(mean, float(mass @ (points - mean) ** 2))


def right(found: Tensor, share: float, optimism: float = 0.0) -> Tensor:
    """Return P(right) of every sample at ρ and δ."""
    return torch.sigmoid(math.log((1 - share) / share) - found - optimism)


def targets(p: Tensor, labels: Tensor, right: Tensor, counts: float) -> Tensor:
    """Return t, a row of all classes per sample; ``counts`` is a.

    x = 1 − a (1 − P(right)) at the label, (1 − x) p' at the most probable class, whose probability
    is p'.
    """
    x = 1 - counts * (1 - right)
    sure, predicted = p.max(dim=1)
    rows = torch.zeros_like(p).scatter_(1, labels[:, None], x[:, None].to(p))
    return rows.scatter_add_(1, predicted[:, None], ((1 - x).to(p) * sure)[:, None])


def known_rate(found: Tensor) -> Known:
    """Return mean and variance of ρ given evidence without optimism, under a uniform prior."""
    grid = (torch.arange(RATES, dtype=torch.float64, device=found.device) + 0.5) / RATES
    gain = found.expm1()
    step = max(1, AT_ONCE // max(len(gain), 1))
    parts = (grid[start : start + step, None] for start in range(0, RATES, step))
    logs = torch.cat([(part * gain).log1p().sum(dim=1) for part in parts])
    mass = logs.softmax(dim=0)
    mean = float(mass @ grid)
    return Known(mean, float(mass @ (grid - mean).square()))
