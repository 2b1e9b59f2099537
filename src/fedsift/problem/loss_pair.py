"""A problem made of any two differentiable losses, and a batch made of any tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

Loss = Callable[[Tensor, Tensor, Any], Tensor]


@dataclass(frozen=True)
class LossPair:
    """A problem made of any two differentiable losses and a start for a shared x."""

    inner_loss: Loss
    outer_loss: Loss
    start: Tensor
    projection: Callable[[Tensor], Tensor] = lambda x: x
    x_is_private: bool = False

    def initial_x(self, batch: Any) -> Tensor:  # noqa: ARG002 - the protocol's argument
        """Return the given start."""
        return self.start.clone()

    def project(self, x: Tensor) -> Tensor:
        """Apply the given projection."""
        return self.projection(x)


@dataclass(frozen=True)
class TensorBatch:
    """Tensors with samples along the first axis, for a user's own problem."""

    tensors: tuple[Tensor, ...]

    def __len__(self) -> int:
        return len(self.tensors[0])

    def take(self, positions: Tensor) -> TensorBatch:
        """Return the samples at these positions."""
        return TensorBatch(tuple(t[positions] for t in self.tensors))
