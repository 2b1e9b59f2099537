"""Parquet files: one, or a folder of them in the order of their names.

Lists of numbers are read a row group at a time, large ones into a file of their own (`spool.py`).
Images are read a row group at a time; the last groups that were read are kept, encoded, up to
``KEPT`` bytes, so that a shuffled pass over a small file reads it once.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from fedsift.data.parquet import opened
from fedsift.data.samples import Samples
from fedsift.data.sources.arrow import from_columns
from fedsift.data.sources.file_rows import Array, FileRows
from fedsift.data.sources.frames import check_distinct
from fedsift.data.sources.options import ReadOptions
from fedsift.data.sources.spool import spooled
from fedsift.data.sources.stored import dense
from fedsift.errors import DataError

KEPT = 1 << 28
_SPLIT = re.compile(r"(train|validation|val|dev|test)(?=[-_.])")


def is_parquet_folder(path: Path) -> bool:
    """Tell a folder with parquet files."""
    return path.is_dir() and any(path.glob("*.parquet"))


def read_parquet(path: Path, options: ReadOptions) -> Samples:
    """Read a parquet file or a folder of them."""
    files = parquet_files(path)
    _check_one_split(path, files)
    columns = ParquetColumns(files)
    _check_alike(columns)
    return from_columns(columns, str(path), options, path if path.is_dir() else path.parent)


def parquet_files(path: Path) -> tuple[Path, ...]:
    """Return the files of a folder in order, or the one file."""
    return tuple(sorted(path.glob("*.parquet"))) if path.is_dir() else (path,)


@dataclass(frozen=True)
class ParquetColumns:
    """The columns of several files, one below the other."""

    files: tuple[Path, ...]

    @cached_property
    def schema(self) -> Any:
        """Names and types of the first file."""
        return self.schema_of(self.files[0])

    def schema_of(self, path: Path) -> Any:
        """Names and types of one file."""
        with opened(path) as file:
            return file.schema_arrow

    def read(self, names: Sequence[str]) -> Any:
        """Read columns of all files."""
        parts = []
        for path in self.files:
            with opened(path) as file:
                parts.append(file.read(columns=list(names)).select(list(names)))
        table = pa.concat_tables(parts, promote_options="permissive")
        table.validate(full=True)  # text may be no UTF-8
        return table

    def arrays(self, name: str, where: str) -> list[Array | FileRows]:
        """Read a column of lists of numbers, a row group at a time; large ones into a file."""
        return spooled((dense(chunk, where) for chunk in self._chunks(name)), where)

    def _chunks(self, name: str) -> Iterator[Any]:
        for path in self.files:
            with opened(path) as file:
                for group in range(file.num_row_groups):
                    yield from file.read_row_group(group, columns=[name]).column(0).chunks

    def cells(self, name: str) -> Iterator[Any]:
        """Go through a column, a row group at a time."""
        for path in self.files:
            with opened(path) as file:
                for batch in file.iter_batches(batch_size=256, columns=[name]):
                    yield from (cell.as_py() for cell in batch.column(0))

    def cell(self, name: str) -> Callable[[int], Any]:
        """Return what reads one value, by way of the row group that holds it."""
        return RowGroups(self.files, name)


class RowGroups:
    """A column of several files, by row; the groups that were read last stay in memory."""

    def __init__(self, files: tuple[Path, ...], column: str) -> None:
        self._column = column
        self._groups: list[tuple[Path, int]] = []
        sizes: list[int] = []
        for path in files:
            with opened(path) as file:
                for group in range(file.num_row_groups):
                    self._groups.append((path, group))
                    sizes.append(file.metadata.row_group(group).num_rows)
        self._ends = np.cumsum(sizes)
        self._kept: OrderedDict[int, Any] = OrderedDict()
        self._lock = Lock()  # pictures are decoded by several threads

    def __call__(self, row: int) -> Any:
        """Read one value."""
        at = int(np.searchsorted(self._ends, row, side="right"))
        with self._lock:
            values = self._values(at)
        return values[row - int(self._ends[at]) + len(values)].as_py()

    def _values(self, at: int) -> Any:
        if at not in self._kept:
            path, group = self._groups[at]
            with opened(path) as file:
                self._kept[at] = file.read_row_group(group, columns=[self._column]).column(0)
        values = self._kept[at]
        self._kept.move_to_end(at)
        while len(self._kept) > 1 and sum(v.nbytes for v in self._kept.values()) > KEPT:
            self._kept.popitem(last=False)
        return values


def _check_one_split(folder: Path, files: Sequence[Path]) -> None:
    found = {match[1] for file in files if (match := _SPLIT.match(file.name))}
    if len(found) > 1:
        raise DataError(
            f"{folder} has files of the splits {', '.join(sorted(found))}; give the files of one "
            "split, in a folder of their own"
        )


def _check_alike(columns: ParquetColumns) -> None:
    first, expected = columns.files[0], columns.schema
    check_distinct(expected.names, str(first))
    for path in columns.files[1:]:
        found = columns.schema_of(path)
        check_distinct(found.names, str(path))
        odd = sorted(set(found.names) ^ set(expected.names))
        odd += [f.name for f in expected if f.name not in odd and not _fit(f, found.field(f.name))]
        if odd:
            raise DataError(
                f"{first} and {path} differ in column {odd[0]!r} or its type; files in one folder "
                "must have the same columns"
            )


def _fit(one: Any, other: Any) -> bool:
    try:
        pa.unify_schemas([pa.schema([one]), pa.schema([other])], promote_options="permissive")
    except pa.ArrowException:
        return False
    return True
