"""Inputs of samples that need not be in memory.

A tensor is in memory; anything else has a length, the shape and type of one input, and ``take``.

| function      | gives                                                             |
|---------------|-------------------------------------------------------------------|
| `take`        | these samples, as a tensor                                        |
| `sample`      | one of them                                                       |
| `whole`       | all samples, as a tensor: for sets that are small by nature       |
| `parts`       | all samples, some at a time                                       |
| `select`      | these samples, stored ones unread                                 |
| `as_type`     | the same numbers in another type, stored ones unread              |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from fedsift.errors import DataError
from fedsift.problem.ahead import concurrent

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
    if isinstance(inputs, Tensor):
        return inputs[indices]
    found = inputs.take(indices)
    if found.shape != (len(indices), *inputs.shape[1:]) or found.dtype != inputs.dtype:
        raise DataError(
            f"stored inputs gave {found.dtype} of shape {list(found.shape)} for {len(indices)} "
            f"samples of {inputs.dtype} and shape {list(inputs.shape[1:])}; correct their reader"
        )
    return found


def sample(inputs: Inputs, index: int) -> Tensor:
    """Return one sample, without the dimension of samples."""
    return take(inputs, torch.tensor([index]))[0]


def whole(inputs: Inputs) -> Tensor:
    """Read all samples."""
    return inputs if isinstance(inputs, Tensor) else take(inputs, torch.arange(len(inputs)))


def parts(inputs: Inputs, size: int) -> Iterator[Tensor]:
    """Read ``size`` samples at a time, in order."""
    if isinstance(inputs, Tensor):
        yield from torch.split(inputs, size)
        return
    for start in range(0, len(inputs), size):
        yield take(inputs, torch.arange(start, min(start + size, len(inputs))))


def select(inputs: Inputs, chosen: Tensor) -> Inputs:
    """Return some samples, by their indices or by a mask; stored ones are not read yet."""
    if isinstance(inputs, Tensor):
        return inputs[chosen]
    rows = chosen.nonzero().squeeze(1) if chosen.dtype == torch.bool else chosen
    if isinstance(inputs, Selected):
        return Selected(inputs.inputs, inputs.rows[rows])
    return Selected(inputs, rows)


def as_type(inputs: Inputs, dtype: torch.dtype) -> Inputs:
    """Return the same numbers in another type; stored ones are converted when they are read."""
    if inputs.dtype == dtype:
        return inputs
    return inputs.to(dtype) if isinstance(inputs, Tensor) else Converted(inputs, dtype)


@dataclass(frozen=True, eq=False)
class Selected:
    """Some rows of stored inputs."""

    inputs: StoredInputs
    rows: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> Shape:
        """Number of rows, then the shape of one input."""
        return (len(self.rows), *self.inputs.shape[1:])

    @property
    def dtype(self) -> torch.dtype:
        """Type of the numbers."""
        return self.inputs.dtype

    @property
    def concurrent(self) -> bool:
        """As of the inputs."""
        return concurrent(self.inputs)

    def take(self, indices: Tensor) -> Tensor:
        """Read these of the rows."""
        return self.inputs.take(self.rows[indices])


@dataclass(frozen=True, eq=False)
class Converted:
    """Stored inputs whose numbers get another type when they are read."""

    inputs: StoredInputs
    dtype: torch.dtype

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def shape(self) -> Shape:
        """Shape of the inputs."""
        return self.inputs.shape

    @property
    def concurrent(self) -> bool:
        """As of the inputs."""
        return concurrent(self.inputs)

    def take(self, indices: Tensor) -> Tensor:
        """Read and convert these samples."""
        return self.inputs.take(indices).to(self.dtype)
