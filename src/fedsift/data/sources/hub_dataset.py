"""A ``datasets.Dataset`` of Hugging Face in memory, without importing ``datasets``.

Its Arrow form is asked for (``with_format("arrow")``): images then stay encoded, and rows that were
selected or shuffled are found by the dataset itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fedsift.data.samples import Samples
from fedsift.data.sources.arrow import from_columns
from fedsift.data.sources.file_rows import Array, FileRows
from fedsift.data.sources.options import ReadOptions
from fedsift.data.sources.stored import dense
from fedsift.errors import DataError

BATCH = 256


@dataclass(frozen=True, eq=False)
class HubColumns:
    """The columns of a dataset in its Arrow form."""

    dataset: Any

    @cached_property
    def schema(self) -> Any:
        """Names and types."""
        return self.dataset[:0].schema

    def read(self, names: Sequence[str]) -> Any:
        """Read columns."""
        return self.dataset.select_columns(list(names))[:]

    def arrays(self, name: str, where: str) -> list[Array | FileRows]:
        """View a column of lists of numbers as arrays, one below the other."""
        return [dense(chunk, where) for chunk in self.read([name]).column(name).chunks]

    def cells(self, name: str) -> Iterator[Any]:
        """Go through a column, some rows at a time."""
        column = self.dataset.select_columns([name])
        for start in range(0, len(self.dataset), BATCH):
            yield from (cell.as_py() for cell in column[start : start + BATCH].column(name))

    def cell(self, name: str) -> Callable[[int], Any]:
        """Return what reads one value of a column."""
        column = self.dataset.select_columns([name])
        return lambda row: column[row : row + 1].column(name)[0].as_py()


def is_hub_dataset(value: Any) -> bool:
    """Tell a dataset of Hugging Face, or a dict of its splits."""
    return hasattr(value, "column_names") and hasattr(value, "with_format")


def from_hub_dataset(dataset: Any, where: str, options: ReadOptions) -> Samples:
    """Make samples of a dataset's columns."""
    if isinstance(dataset, dict):
        raise DataError(f"{where} has the splits {', '.join(dataset)}; give one of them")
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise DataError(f"{where} is a dataset that is streamed; load it without streaming=True")
    if not len(dataset):
        raise DataError(f"{where} has no samples; a site needs some")
    features = getattr(dataset, "features", None) or {}
    known = {name: _described(feature) for name, feature in features.items()}
    return from_columns(HubColumns(dataset.with_format("arrow")), where, options, None, known)


def _described(feature: Any) -> dict[str, Any]:
    names = getattr(feature, "names", None)
    return {"_type": type(feature).__name__, "names": names if names is None else list(names)}
