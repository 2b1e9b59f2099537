"""Two groups of points: a mixture of two Gaussians with diagonal covariances, by EM.

    r_i     = π_1 N(v_i; μ_1, σ_1²) / Σ_g π_g N(v_i; μ_g, σ_g²)       group 1: the higher mean
    BIC     = k log n − 2 log L       k = 4 d + 1 numbers for two groups, 2 d for one

Nothing is random: EM starts from the points above and below the middle of their range. The groups
are separate where the mixture has the lower BIC, one Gaussian being the other choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

STEPS = 100
ENOUGH = 4  # points: two Gaussians fit fewer exactly, whatever they are
FLOOR = 1e-4  # of the variance over all points: a group of one point has none of its own


@dataclass(frozen=True, eq=False)
class Groups:
    """How probable each point is of the upper group, and whether there are two groups at all."""

    upper: Tensor
    separate: bool


def two_groups(values: Tensor) -> Groups:
    """Split points, a row each, into those of a lower and those of a higher mean."""
    points = values.double().flatten(1) if values.ndim > 1 else values.double()[:, None]
    level = points.mean(dim=1)
    if len(points) < 2 or bool((level == level[0]).all()):
        return Groups(torch.zeros_like(level), separate=False)
    spread = points.var(dim=0, correction=0)
    floor = FLOOR * spread + 1e-12
    upper = (level > (level.min() + level.max()) / 2).to(points.dtype)
    for _ in range(STEPS):
        shares = torch.stack([1 - upper, upper]).clamp(min=1e-9)  # [2, n]
        totals = shares.sum(dim=1, keepdim=True)
        means = shares @ points / totals
        squares = (points - means[:, None]) ** 2
        variances = (shares[:, :, None] * squares).sum(dim=1) / totals + floor
        logs = (totals / len(points)).log() + _log_density(points, means, variances)
        upper = logs.softmax(dim=0)[1]
    one = _log_density(points, points.mean(dim=0)[None], (spread + floor)[None])
    n, d = points.shape
    gained = 2 * float(torch.logsumexp(logs, dim=0).sum() - one.sum())
    separate = n >= ENOUGH and gained > (2 * d + 1) * math.log(n)
    return Groups(upper if bool(means[1].mean() >= means[0].mean()) else 1 - upper, separate)


def _log_density(points: Tensor, means: Tensor, variances: Tensor) -> Tensor:
    """Return log N(v_i; μ_g, σ_g²), a row per group."""
    squares = ((points - means[:, None]) ** 2 / variances[:, None]).sum(dim=2)
    return -0.5 * (squares + (2 * math.pi * variances).log().sum(dim=1)[:, None])
