"""One split of a dataset: its labels now, its inputs when asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from fedsift.errors import DataError
from fedsift.memory import aligned

Shape = tuple[int, int, int]
"""Channels, height, width."""


@dataclass(frozen=True, eq=False)
class Source:
    """Labels of ``n`` samples, and a function that decodes any of their inputs.

    ``labels`` and ``groups`` are int64 of length ``n``; ``groups`` numbers the writers, where the
    dataset knows them.
    """

    name: str
    labels: Tensor
    class_names: tuple[str, ...]
    shape: Shape
    decode: Callable[[Tensor], Tensor]
    groups: Tensor | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def inputs(self, indices: Tensor) -> Tensor:
        """Decode these rows, and only these, to float32 ``[k, C, H, W]``."""
        if len(indices) and (indices.min() < 0 or indices.max() >= len(self)):
            raise DataError(f"{self.name} has rows 0 to {len(self) - 1}; ask only for those.")
        return aligned(self.decode(indices))
