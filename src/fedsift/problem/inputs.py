"""Inputs of samples that need not be in memory.

A tensor is in memory; anything else has a length, the shape and type of one input, and ``take``.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

Shape = tuple[int, ...]


@runtime_checkable
class StoredInputs(Protocol):
    """Inputs that are read when they are asked for: a memory-mapped array, image files."""

    def __len__(self) -> int: ...

    @property
    def shape(self) -> Shape:
        """Number of samples, then the shape of one input: as of a tensor."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """Type of the numbers."""
        ...

    def take(self, indices: Tensor) -> Tensor:
        """Read these samples, in this order."""
        ...


Inputs = Tensor | StoredInputs


def take(inputs: Inputs, indices: Tensor) -> Tensor:
    """Return these samples as a tensor."""
    return inputs[indices] if isinstance(inputs, Tensor) else inputs.take(indices)
