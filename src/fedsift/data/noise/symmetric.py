"""Symmetric noise: a drawn sample gets any other class, with equal probability."""

from __future__ import annotations

import torch
from torch import Tensor

from fedsift.data.noise.about import About
from fedsift.data.noise.rate import draw


def symmetric(
    labels: Tensor,
    rate: float,
    classes: int,
    generator: torch.Generator,
    about: About,  # noqa: ARG001
) -> Tensor:
    """Give exactly round(rate * n) samples a uniformly random other class."""
    chosen = draw(labels, rate, classes, generator)
    shift = torch.randint(1, classes, (len(chosen),), generator=generator)
    noisy = labels.clone()
    noisy[chosen] = (labels[chosen] + shift) % classes
    return noisy
