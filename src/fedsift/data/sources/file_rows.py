"""Rows of an array in a file, read when asked for.

A memory-mapped array would do, but the system maps the neighbours of every page that is touched:
after a few shuffled batches the whole file counts as memory of the process. Reading the rows keeps
the memory at what was asked for, and is faster.
"""

from __future__ import annotations

import mmap
import os
import weakref
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

    def __getitem__(self, rows: npt.NDArray[np.int64]) -> Array:
        """Read these rows, in this order."""
        out = np.empty((len(rows), *self.shape[1:]), self.dtype)
        size = self.dtype.itemsize * prod(self.shape[1:])
        data = out.reshape(-1).view(np.uint8).reshape(len(rows), size)
        for place, row in enumerate(rows.tolist()):
            if os.preadv(self._file, [data[place]], self._offset + row * size) != size:
                raise DataError(f"{self._path} has been cut off while it was in use; restore it")
        return out


def file_rows(array: Array) -> Array | FileRows:
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
