"""A problem made of any two differentiable losses, and a batch made of any tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

Loss = Callable[[Tensor, Tensor, Any], Tensor]


@dataclass(frozen=True)
class LossPair:
    """A problem made of any two differentiable losses and a start for a shared x.

    Both losses are functions of (x, y, batch) that return a scalar tensor.

    Attributes:
        inner_loss: A client's loss g_m(x, y; batch).
        outer_loss: The server's loss F(x, y; batch).
        start: Where x starts.
        projection: Maps x back to where it may be; by default it changes nothing.
        x_is_private: Whether every client has an x of its own, which it does not send.
        y_is_private: Whether every client has a y of its own, which it does not send: a personal
            lower level. F is then the clients' own, and x shared.

    Examples:
        >>> import torch, fedsift as fs
        >>> problem = fs.LossPair(
        ...     inner_loss=lambda x, y, batch: ((y - x) ** 2).sum(),
        ...     outer_loss=lambda x, y, batch: (y**2).sum(),
        ...     start=torch.ones(3),
        ...     projection=lambda x: x.clamp(0, 1),
        ... )
        >>> problem.project(torch.tensor([-1.0, 0.5, 2.0]))
        tensor([0.0000, 0.5000, 1.0000])
    """

    inner_loss: Loss
    outer_loss: Loss
    start: Tensor
    projection: Callable[[Tensor], Tensor] = lambda x: x
    x_is_private: bool = False
    y_is_private: bool = False

    def initial_x(self, batch: Any) -> Tensor:  # noqa: ARG002 - the protocol's argument
        """Return the given start."""
        return self.start.clone()

    def project(self, x: Tensor) -> Tensor:
        """Apply the given projection."""
        return self.projection(x)


@dataclass(frozen=True)
class TensorBatch:
    """Tensors with samples along the first axis, for a problem of your own.

    Attributes:
        tensors: Tensors of one length, such as inputs and targets.

    Examples:
        >>> import torch, fedsift as fs
        >>> batch = fs.TensorBatch((torch.eye(3), torch.tensor([0, 1, 2])))
        >>> len(batch), batch.take(torch.tensor([2])).tensors[1]
        (3, tensor([2]))
    """

    tensors: tuple[Tensor, ...]

    def __len__(self) -> int:
        return len(self.tensors[0])

    def take(self, positions: Tensor) -> TensorBatch:
        """Return the samples at these positions."""
        return TensorBatch(tuple(t[positions] for t in self.tensors))
