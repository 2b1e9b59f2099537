"""Rows of an array in a file, read when asked for.

A memory-mapped array would do, but the system maps the neighbours of every page that is touched:
after a few shuffled batches the whole file counts as memory of the process. Reading the rows keeps
the memory at what was asked for.
"""

from __future__ import annotations

import mmap
import os
import weakref
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.errors import DataError

Array = npt.NDArray[Any]


class FileRows:
    """An array whose rows are read from its file; the file is kept open."""

    def __init__(self, mapped: np.memmap[Any, Any]) -> None:
        self.shape: tuple[int, ...] = mapped.shape
        self.dtype = mapped.dtype
        self._path = Path(str(mapped.filename))
        self._offset = mapped.offset
        self._file = os.open(self._path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __getitem__(self, rows: npt.NDArray[np.int64]) -> Array:
        """Read these rows, in this order."""
        out = np.empty((len(rows), *self.shape[1:]), self.dtype)
        size = self.dtype.itemsize * prod(self.shape[1:])
        data = out.reshape(-1).view(np.uint8).reshape(len(rows), size)
        starts = np.flatnonzero(np.diff(rows, prepend=rows[:1] - 2) != 1)  # of consecutive rows
        for first, last in pairwise((*starts.tolist(), len(rows))):
            self._read(data[first:last], self._offset + int(rows[first]) * size)
        return out

    def _read(self, data: npt.NDArray[np.uint8], offset: int) -> None:
        """Fill an array from the file; the system gives at most 2 GB at a time."""
        left: Any = data.reshape(-1)
        while left.size:
            count = os.preadv(self._file, [left], offset)
            if count <= 0:
                raise DataError(f"{self._path} has been cut off while it was in use; restore it")
            left, offset = left[count:], offset + count


def file_rows(array: Array | FileRows) -> Array | FileRows:
    """Read a mapped array from its file instead, where it is a plain one that nobody writes."""
    plain = (
        isinstance(array, np.memmap)
        and array.mode == "r"
        and array.filename is not None
        and array.flags.c_contiguous
        and isinstance(getattr(array, "base", None), mmap.mmap)  # not a part of another array
        and hasattr(os, "preadv")
    )
    return FileRows(array) if plain else array  # type: ignore[arg-type]
