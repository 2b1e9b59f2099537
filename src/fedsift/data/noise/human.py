"""Human noise: the labels that people gave, from a column of the data.

How many are wrong is the people's doing: ρ plays no part. `noise_column` names the column where
a dataset has several.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedsift.data.noise.about import About
from fedsift.errors import DataError


def human(
    labels: Tensor,  # noqa: ARG001
    rate: float,  # noqa: ARG001
    classes: int,  # noqa: ARG001
    generator: torch.Generator,  # noqa: ARG001
    about: About,
) -> Tensor:
    """Give every sample the label of the column."""
    if not about.columns:
        raise DataError(
            f"{about.name} has no labels by people; choose another noise than 'human', or the "
            "dataset cifar10-features"
        )
    column = about.column or next(iter(about.columns))
    if column not in about.columns:
        raise DataError(
            f"{about.name} has no labels {column!r}; noise_column must be one of "
            f"{', '.join(about.columns)}"
        )
    return about.columns[column].clone()
