"""Mixed noise: every site draws its own kind, so that no one noise matrix is right for all."""

from __future__ import annotations

import torch
from torch import Tensor

from fedsift.data.noise.about import About
from fedsift.data.noise.instance import instance
from fedsift.data.noise.pair import pair
from fedsift.data.noise.symmetric import symmetric

KINDS = (symmetric, pair, instance)  # human has a rate of its own


def mixed(
    labels: Tensor, rate: float, classes: int, generator: torch.Generator, about: About
) -> Tensor:
    """Draw a kind, then make exactly round(rate * n) labels wrong by it."""
    kind = KINDS[int(torch.randint(len(KINDS), (), generator=generator))]
    return kind(labels, rate, classes, generator, about)
