"""Pair noise: a drawn sample of class c gets class c + 1 (mod classes)."""

from __future__ import annotations

import torch
from torch import Tensor

from fedsift.data.noise.about import About
from fedsift.data.noise.rate import draw


def pair(
    labels: Tensor,
    rate: float,
    classes: int,
    generator: torch.Generator,
    about: About,  # noqa: ARG001
) -> Tensor:
    """Give exactly round(rate * n) samples the next class."""
    chosen = draw(labels, rate, classes, generator)
    noisy = labels.clone()
    noisy[chosen] = (labels[chosen] + 1) % classes
    return noisy
