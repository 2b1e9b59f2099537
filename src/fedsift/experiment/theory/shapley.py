"""Shapley values of samples (Eq. 5 of the paper), exactly and by permutations, and leave-one-out.

    φ_j = 1/n Σ_{S ⊂ D∖j} C(n − 1, |S|)⁻¹ (Φ(S ∪ j) − Φ(S))
        = E over permutations of Φ(those before j, and j) − Φ(those before j)

Φ gets many subsets at a time, a row of zeros and ones each.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from fedsift.errors import InputError

Gain = Callable[[Tensor], Tensor]  # [subsets, n] -> [subsets]
MOST = 16  # samples whose 2^n subsets are listed


def exact(gain: Gain, n: int) -> Tensor:
    """Return φ by all 2^n subsets."""
    if n > MOST:
        raise InputError(f"{n} samples have 2^{n} subsets; draw permutations instead")
    members = (torch.arange(2**n)[:, None] >> torch.arange(n)) & 1
    values, sizes = gain(members.double()), members.sum(dim=1)
    weights = [1.0 / (n * math.comb(n - 1, size)) for size in range(n)]
    found = []
    for j in range(n):
        without = (members[:, j] == 0).nonzero().squeeze(1)
        share = torch.tensor(weights, dtype=values.dtype)[sizes[without]]
        found.append((share * (values[without + 2**j] - values[without])).sum())
    return torch.stack(found)


def by_permutations(gain: Gain, n: int, count: int, source: torch.Generator) -> Tensor:
    """Return φ as the mean over random permutations."""
    total = torch.zeros(n, dtype=torch.float64)
    for _ in range(count):
        order = torch.randperm(n, generator=source)
        members = torch.zeros(n + 1, n, dtype=torch.float64)
        for place, j in enumerate(order.tolist()):
            members[place + 1 :, j] = 1.0
        values = gain(members)
        total[order] += values[1:] - values[:-1]
    return total / count


def leave_one_out(gain: Gain, n: int) -> Tensor:
    """Return Φ(D) − Φ(D∖j)."""
    members = torch.cat((torch.ones(1, n), 1.0 - torch.eye(n))).double()
    values = gain(members)
    return values[0] - values[1:]
