"""Local intrinsic dimension of a cloud of points, by its nearest neighbours (Amsaleg et al., 2015).

    LID(v) = −( 1/k Σ_j log(r_j / r_k) )⁻¹        r_1 ≤ ... ≤ r_k: distances to the k nearest others

Predictions on wrongly labelled samples fill more dimensions than those on rightly labelled ones.
"""

from __future__ import annotations

import torch
from torch import Tensor

NEIGHBOURS = 20
TINY = 1e-6  # distances of equal points, and sums of points that are all equally far


def mean_dimension(points: Tensor) -> float:
    """Return the mean of LID over all points, a row each; 0 for fewer than three points."""
    k = min(NEIGHBOURS, len(points) - 1)
    if k < 2:
        return 0.0
    rows = points.double()
    distances = torch.cdist(rows, rows).fill_diagonal_(torch.inf)
    nearest = distances.topk(k, dim=1, largest=False).values.sort(dim=1).values.clamp(min=TINY)
    logs = (nearest / nearest[:, -1:]).log().mean(dim=1)
    return float((-1 / logs.clamp(max=-TINY)).mean())
