"""Numbers that stay where they are: in a file, or in pieces of an Arrow column.

Only the samples asked for are copied. What a model cannot use is converted then:

| stored                    | given to the model |
|---------------------------|--------------------|
| float16, float64, boolean | float32            |
| uint16; uint32, uint64    | int32; int64       |
| other numbers             | as they are        |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from fedsift.data.sources.file_rows import Array, FileRows, file_rows
from fedsift.errors import DataError
from fedsift.memory import aligned
from fedsift.problem.inputs import Shape

_CONVERTED: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.float16): np.dtype(np.float32),
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.bool_): np.dtype(np.float32),
    np.dtype(np.uint16): np.dtype(np.int32),
    np.dtype(np.uint32): np.dtype(np.int64),
    np.dtype(np.uint64): np.dtype(np.int64),
}


@dataclass(frozen=True, eq=False)
class StoredParts:
    """Arrays of one shape and type, one after the other, as the inputs of samples."""

    concurrent: ClassVar[bool] = True
    parts: tuple[Array | FileRows, ...]

    @classmethod
    def of(cls, parts: Sequence[Array | FileRows], where: str) -> StoredParts:
        """Check that the parts fit together and hold numbers."""
        if not sum(len(part) for part in parts):
            raise DataError(f"{where} has no samples; a site needs some")
        first = parts[0]
        if any(part.shape[1:] != first.shape[1:] for part in parts):
            raise DataError(f"{where} has inputs that differ in shape; give all the same")
        check_numbers(first, where)
        return cls(tuple(file_rows(part) for part in parts))

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    @property
    def shape(self) -> Shape:
        """Number of samples, then the shape of one."""
        return (len(self), *self.parts[0].shape[1:])

    @property
    def dtype(self) -> torch.dtype:
        """Type of the numbers that ``take`` returns."""
        return tensor(np.empty(0, self.parts[0].dtype)).dtype

    def take(self, indices: Tensor) -> Tensor:
        """Copy these samples, in this order."""
        rows = indices.cpu().numpy()
        out = np.empty((len(rows), *self.shape[1:]), self.parts[0].dtype)
        start = 0
        for part in self.parts:
            here = np.flatnonzero((rows >= start) & (rows < start + len(part)))
            out[here] = part[rows[here] - start]
            start += len(part)
        return tensor(out)


def tensor(array: Array) -> Tensor:
    """Copy an array to a tensor of a type that models take."""
    native: np.dtype[Any] = array.dtype.newbyteorder("=")
    with np.errstate(over="ignore"):  # an infinite input is refused later, by its place
        return aligned(torch.from_numpy(np.array(array, dtype=_CONVERTED.get(native, native))))


def check_numbers(array: Array | FileRows, where: str) -> None:
    """Refuse what is not an array of numbers with a row per sample."""
    if array.dtype.kind not in "fiub":
        raise DataError(
            f"{where} holds {array.dtype} and not numbers; give an array of floats or integers"
        )
    if array.ndim < 2:
        raise DataError(
            f"{where} has {array.ndim} dimension(s); inputs need one row per sample, [n, ...]"
        )


def is_list(kind: Any) -> bool:
    """Tell Arrow's types of lists."""
    kind = getattr(kind, "storage_type", kind)
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def dense(chunk: Any, where: str) -> Array:
    """View a chunk of lists of numbers as one array; all lists must be of one length."""
    shape = [len(chunk)]
    values = getattr(chunk, "storage", chunk)
    while is_list(values.type):
        lengths = pc.unique(pc.list_value_length(values)).to_pylist()
        if len(lengths) > 1 or None in lengths:
            found = ", ".join(str(n) for n in lengths[:2])
            raise DataError(f"{where} has lists of lengths {found}; all must be of one length")
        shape.append(lengths[0] if lengths else 0)
        values = values.flatten()
    if values.null_count:
        raise DataError(f"{where} has {values.null_count} missing numbers; fill them in")
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        raise DataError(f"{where} holds {values.type} and not numbers; give lists of numbers")
    array: Array = values.to_numpy(zero_copy_only=False)
    return array.reshape(shape)
