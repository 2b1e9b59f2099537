"""Stored inputs for tests."""

from __future__ import annotations

import torch
from torch import Tensor

from misplacement import misplaced


class Watched:
    """A tensor that is read as if it were stored; remembers what was asked for.

    What it gives is 4 bytes off an aligned address, as a file's bytes may be.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.tensor, self.largest, self.reads = tensor, 0, 0

    def __len__(self) -> int:
        return len(self.tensor)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def dtype(self) -> torch.dtype:
        return self.tensor.dtype

    def take(self, indices: Tensor) -> Tensor:
        self.largest, self.reads = max(self.largest, len(indices)), self.reads + 1
        return misplaced(self.tensor[indices], 4)
