"""A pair of losses and the derivatives that bilevel optimisation needs of them.

    min_x F(x, y_x)   subject to   y_x = argmin_y G(x, y),   G = Σ_m (N_m / N) g_m

| here                          | paper            |
|-------------------------------|------------------|
| ``inner_loss(x, y, batch)``   | g_m(x, y)        |
| ``outer_loss(x, y, batch)``   | F(x, y)          |
| ``inner_gradient``            | ∇_y g_m          |
| ``outer_gradients``           | ∇_x F, ∇_y F     |
| ``hessian_product``           | ∇²_yy g_m v      |
| ``cross_product``             | ∇²_xy g_m v      |

The functions below are the plain versions, through ``torch.func``, for any two losses;
``curvature`` and ``sample_passes`` have the fast ones. What a problem may offer beyond its losses
is a protocol each: ``Composite``, ``HasCrossFrom``, ``HasAgreement``, ``Poolable``, ``Stackable``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import torch
from torch import Tensor
from torch.func import grad, jvp, vjp

Loss = Callable[[Tensor, Tensor, Any], Tensor]


class Batch(Protocol):
    """Samples of one client; a part of them is a batch again."""

    def __len__(self) -> int: ...

    def take(self, positions: Tensor) -> Self:
        """Return the samples at these positions."""
        ...


AnyBatch = TypeVar("AnyBatch", bound=Batch)


class Problem(Protocol):
    """Two losses, and what the outer variable may be."""

    @property
    def x_is_private(self) -> bool:
        """True if every client owns its part of x and never sends it (sample weights)."""
        ...

    def initial_x(self, batch: Any) -> Tensor:
        """Return the x to start from: of one client if private, else of the whole problem."""
        ...

    def inner_loss(self, x: Tensor, y: Tensor, batch: Any) -> Tensor:
        """Return g_m(x, y), a scalar."""
        ...

    def outer_loss(self, x: Tensor, y: Tensor, batch: Any) -> Tensor:
        """Return F(x, y), a scalar."""
        ...

    def project(self, x: Tensor) -> Tensor:
        """Return the point of the feasible set nearest to x."""
        ...


@runtime_checkable
class Composite(Protocol):
    """A problem whose inner loss is a convex loss of outputs: it has a Gauss-Newton matrix.

    inner_loss(x, y, b) = output_loss(x, outputs(y, b), b) + l2/2 ‖y‖²
    """

    @property
    def l2(self) -> float:
        """Coefficient of ½‖y‖²."""
        ...

    def outputs(self, y: Tensor, batch: Any) -> Tensor:
        """Return the model's outputs."""
        ...

    def output_loss(self, x: Tensor, outputs: Tensor, batch: Any) -> Tensor:
        """Return the loss of these outputs, convex in them."""
        ...


@runtime_checkable
class HasCrossFrom(Protocol):
    """A composite problem that knows ∇²_xy g_m v from outputs and J v in closed form."""

    def cross_from(self, x: Tensor, outputs: Tensor, along: Tensor, batch: Any) -> Tensor:
        """Return ∇²_xy g_m(x, y) v, of the shape of x."""
        ...


@runtime_checkable
class HasAgreement(Protocol):
    """A composite problem whose samples have labels that the model may share or not."""

    def agreement(self, x: Tensor, outputs: Tensor, batch: Any) -> Tensor:
        """Return a number in [0, 1] per entry of x, below ½ where another label is likelier.

        Entries whose sample is not in the batch are zero.
        """
        ...


@runtime_checkable
class Poolable(Protocol):
    """A problem with an x per sample: samples of several clients can be treated as one batch."""

    def pool(self, parts: Sequence[tuple[Tensor, Any, float]]) -> tuple[Tensor, Any]:
        """Return (x, batch) with inner_loss(x, ·, batch) = Σ share · inner_loss(x_m, ·, batch_m).

        ``parts`` are (x_m, batch_m, share) with shares that sum to 1. The pool's x has the x_m one
        after the other, and its cross product has the score of sample j divided by the number of
        samples at its place, as that of every part.
        """
        ...


@runtime_checkable
class Stackable(Protocol):
    """A problem that can do for several clients at once what each does at a y of its own."""

    def stack(self, parts: Sequence[tuple[Tensor, Any]]) -> Callable[[Tensor], Tensor] | None:
        """Return [C, d] -> [C]: inner_loss(x_m, y_m, batch_m) of C parts (x_m, batch_m).

        The batches have equal lengths. None where it cannot be done or would not be faster.
        """
        ...


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


def chunks(batch: AnyBatch, size: int) -> Iterator[AnyBatch]:
    """Cut a batch into consecutive parts of at most ``size`` samples."""
    if len(batch) <= size:
        yield batch
        return
    for start in range(0, len(batch), size):
        yield batch.take(torch.arange(start, min(start + size, len(batch))))


def inner_gradient(problem: Problem, x: Tensor, y: Tensor, batch: Any) -> Tensor:
    """Return ∇_y g_m(x, y)."""
    return _tensor(grad(lambda y_: problem.inner_loss(x, y_, batch))(y))


def outer_gradients(problem: Problem, x: Tensor, y: Tensor, batch: Any) -> tuple[Tensor, Tensor]:
    """Return (∇_x F, ∇_y F) at (x, y)."""
    gx, gy = grad(lambda x_, y_: problem.outer_loss(x_, y_, batch), argnums=(0, 1))(x, y)
    return gx, gy


def hessian_product(problem: Problem, x: Tensor, y: Tensor, batch: Any, v: Tensor) -> Tensor:
    """Return ∇²_yy g_m(x, y) v: the derivative of the gradient along v."""
    return _tensor(jvp(lambda y_: inner_gradient(problem, x, y_, batch), (y,), (v,))[1])


def cross_product(problem: Problem, x: Tensor, y: Tensor, batch: Any, v: Tensor) -> Tensor:
    """Return ∇²_xy g_m(x, y) v = ∇_x ⟨∇_y g_m(x, y), v⟩."""
    pull = vjp(lambda x_: inner_gradient(problem, x_, y, batch), x)[1]
    return _tensor(pull(v)[0])


def _tensor(value: Any) -> Tensor:
    assert isinstance(value, Tensor)
    return value
