"""No noise, for comparison."""

from __future__ import annotations

import torch
from torch import Tensor

from fedsift.data.noise.about import About


def none(
    labels: Tensor,
    rate: float,  # noqa: ARG001
    classes: int,  # noqa: ARG001
    generator: torch.Generator,  # noqa: ARG001
    about: About,  # noqa: ARG001
) -> Tensor:
    """Keep every label."""
    return labels.clone()
