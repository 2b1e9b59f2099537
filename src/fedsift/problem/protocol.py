"""What a bilevel problem is: a pair of losses, and what a problem may offer beyond them.

    min_x F(x, y_x)   subject to   y_x = argmin_y G(x, y),   G = Σ_m (N_m / N) g_m

| here                          | paper            |
|-------------------------------|------------------|
| ``inner_loss(x, y, batch)``   | g_m(x, y)        |
| ``outer_loss(x, y, batch)``   | F(x, y)          |

``derivatives`` has the gradients and products of any two losses. A ``Composite`` problem has a
Gauss-Newton matrix too; a ``SampleWeighting`` has an entry of x for every labelled sample, which
allows closed forms and one pass over the samples of several clients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import torch
from torch import Tensor

from fedsift.problem.ahead import concurrent, one_ahead

NUMBERS = 50_000  # of all inputs in one chunk: more leaves the cache and needs more memory
SMALLEST, LARGEST = 64, 512
ACTIVATIONS = {"cpu": 2**22, "other": 2**28}  # numbers in the largest layer of a chunk
FEWEST, MOST = 16, 256  # samples of a chunk where the activations are known


class Batch(Protocol):
    """Samples of one client; a part of them is a batch again."""

    def __len__(self) -> int: ...

    def take(self, positions: Tensor) -> Self:
        """Return the samples at these positions."""
        ...


AnyBatch = TypeVar("AnyBatch", bound=Batch)


class InnerLoss(Protocol):
    """All that local steps need of a problem."""

    def inner_loss(self, x: Tensor, y: Tensor, batch: Any) -> Tensor:
        """Return g_m(x, y), a scalar."""
        ...


class Problem(Protocol):
    """Two losses, and which values the outer variable may have."""

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


def y_is_private(problem: Any) -> bool:
    """Tell whether every client has a y of its own: a problem that says nothing has one for all."""
    return bool(getattr(problem, "y_is_private", False))


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
class SampleWeighting(Composite, Protocol):
    """A composite problem of labelled samples with one entry of x, its weight, for each.

    Vectors like x have zeros where their sample is not in the batch.
    """

    def sample_losses(self, y: Tensor, batch: Any) -> Tensor:
        """Return ℓ(y; s_j) for every sample of the batch."""
        ...

    def outer_from(self, outputs: Tensor, batch: Any) -> Tensor:
        """Return F, a mean over the samples of the batch, by their outputs."""
        ...

    def cross_from(self, x: Tensor, outputs: Tensor, along: Tensor, batch: Any) -> Tensor:
        """Return ∇²_xy g_m(x, y) v in closed form from the outputs and J v, of the shape of x."""
        ...

    def agreement(self, x: Tensor, outputs: Tensor, batch: Any) -> Tensor:
        """Return a number in [0, 1] per entry of x, below ½ where another label is likelier."""
        ...

    def pool(self, parts: Sequence[tuple[Tensor, Any, float]]) -> tuple[Tensor, Any]:
        """Return (x, batch) with inner_loss(x, ·, batch) = Σ share · inner_loss(x_m, ·, batch_m).

        ``parts`` are (x_m, batch_m, share) with shares that sum to 1. The pool's x has the x_m one
        after the other, and its cross product has the score of sample j divided by the number of
        samples at its place, as that of every part.
        """
        ...

    def scores(self, outputs: Tensor, along: Tensor, labels: Tensor) -> Tensor:
        """Return N_m ∂/∂x_j ⟨∇_y g_m, v⟩ of every sample from its outputs and J v."""
        ...

    def bent(self, weights: Tensor, outputs: Tensor, along: Tensor) -> Tensor:
        """Return n Q J v, Q being the Hessian of the output loss of n samples."""
        ...

    def stack(self, parts: Sequence[tuple[Tensor, Any]]) -> Stack | None:
        """Return C parts (x_m, batch_m) as one, each with a model of its own.

        The batches have equal lengths. None where it cannot be done or would not be faster.
        """
        ...


class Stackable(Protocol):
    """All that local steps of several clients at once need of a problem."""

    def stack(self, parts: Sequence[tuple[Tensor, Any]]) -> Stack | None:
        """Return C parts (x_m, batch_m) as one, each with a model of its own; None: it cannot."""
        ...


@dataclass(frozen=True, eq=False)
class Stack:
    """C batches of B samples, each with a model y_m of its own, a row of [C, d].

    ``run`` gives the outputs [C, B, ...]; ``losses(ys, outputs)`` the inner losses [C].
    """

    run: Callable[[Tensor], Tensor]
    losses: Callable[[Tensor, Tensor], Tensor]
    weights: Tensor
    labels: Tensor
    positions: Tensor


def is_stored(batch: Any) -> bool:
    """Return whether a batch's samples are not in memory: ``unread`` then gives some, unread.

    Asked for every client in every round, so no ``runtime_checkable`` protocol: those are slow.
    """
    return hasattr(batch, "unread")


def part_of(batch: Any, positions: Tensor) -> Any:
    """Return the samples at these positions: many, so that stored ones are not read yet."""
    return batch.unread(positions) if is_stored(batch) else batch.take(positions)


@runtime_checkable
class KnownActivations(Protocol):
    """A problem that knows how large its model's layers are."""

    def widest(self, batch: Any) -> int:
        """Return how many numbers the largest layer has for one sample; 0: not known."""
        ...


def pass_length(problem: Any, batch: Any) -> int:
    """Return how many samples to run at once: as many as keep the largest layer in the cache.

    A power of two: chunks then start at aligned addresses.
    """
    widest = problem.widest(batch) if isinstance(problem, KnownActivations) else 0
    if widest <= 0:
        return chunk_length(batch)
    kind = "cpu" if batch.labels.device.type == "cpu" else "other"
    fitting = 1 << (max(ACTIVATIONS[kind] // widest, 1).bit_length() - 1)
    return min(max(fitting, FEWEST), MOST)


def chunk_length(batch: Any) -> int:
    """Return how many samples to take at once: more where samples are small."""
    tensors: tuple[Any, ...] = getattr(batch, "tensors", (None,))
    shape: tuple[int, ...] = getattr(getattr(batch, "inputs", tensors[0]), "shape", ())
    if not shape or not math.prod(shape):
        return SMALLEST
    return min(max(NUMBERS // math.prod(shape[1:]), SMALLEST), LARGEST)


def chunks(batch: AnyBatch, size: int) -> Iterator[AnyBatch]:
    """Cut a batch into consecutive parts of at most ``size`` samples, each of them in memory."""
    if len(batch) <= size and not is_stored(batch):
        yield batch
        return
    span = getattr(batch, "span", None)
    starts = range(0, len(batch), size)
    if span is not None:
        yield from (span(start, min(start + size, len(batch))) for start in starts)
        return
    positions = (torch.arange(start, min(start + size, len(batch))) for start in starts)
    ahead = is_stored(batch) and concurrent(getattr(batch, "inputs", None))
    yield from one_ahead(batch.take, positions) if ahead else map(batch.take, positions)
