"""Arrow and Feather files, and folders that ``datasets.save_to_disk`` of Hugging Face writes.

    dataset_info.json    "features": {"image": {"_type": "Image"},
                                      "label": {"_type": "ClassLabel", "names": [...]}}
    state.json           "_data_files": [{"filename": "data-00000-of-00002.arrow"}, ...]
    data-*.arrow         Arrow's stream format

All of it is memory-mapped: nothing is read before it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from fedsift.data.samples import Samples
from fedsift.data.sources.arrow import from_columns
from fedsift.data.sources.file_rows import Array, FileRows
from fedsift.data.sources.options import ReadOptions
from fedsift.data.sources.stored import dense
from fedsift.errors import DataError

STATE, INFO, SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"


@dataclass(frozen=True, eq=False)
class ArrowColumns:
    """An Arrow table, in memory or mapped."""

    table: Any

    @property
    def schema(self) -> Any:
        """Names and types."""
        return self.table.schema

    def read(self, names: Sequence[str]) -> Any:
        """Return columns as they are."""
        return self.table.select(list(names))

    def arrays(self, name: str, where: str) -> list[Array | FileRows]:
        """View a column of lists of numbers as arrays, one below the other."""
        return [dense(chunk, where) for chunk in self.read([name]).column(name).chunks]

    def cells(self, name: str) -> Iterator[Any]:
        """Go through a column."""
        return (cell.as_py() for cell in self.table.column(name))

    def cell(self, name: str) -> Callable[[int], Any]:
        """Return what reads one value of a column."""
        column = self.table.column(name)
        return lambda row: column[row].as_py()


def read_arrow(path: Path, options: ReadOptions) -> Samples:
    """Read an Arrow or Feather file."""
    return from_columns(ArrowColumns(mapped(path)), str(path), options, path.parent)


def is_saved_dataset(path: Path) -> bool:
    """Tell a folder that ``save_to_disk`` wrote."""
    return path.is_dir() and any((path / name).exists() for name in (STATE, SPLITS))


def read_saved_dataset(path: Path, options: ReadOptions) -> Samples:
    """Read a folder that ``save_to_disk`` wrote for one split."""
    if (path / SPLITS).exists():
        splits = _json(path / SPLITS).get("splits", [])
        raise DataError(
            f"{path} has the splits {', '.join(map(str, splits))}; give the folder of one split, "
            f"such as {path / str(splits[0] if splits else 'train')}"
        )
    listed = _json(path / STATE).get("_data_files", [])
    names = [str(entry.get("filename")) for entry in listed if isinstance(entry, dict)]
    if not names:
        raise DataError(f"{path / STATE} lists no data files; save the dataset again")
    features = _json(path / INFO).get("features") or {}
    tables = [mapped(path / Path(name).name) for name in names]
    try:
        table = pa.concat_tables(tables)
    except pa.ArrowException:
        raise DataError(f"{path} has files whose columns differ; save the dataset again") from None
    return from_columns(ArrowColumns(table), str(path), options, path, features)


def mapped(path: Path) -> Any:
    """Map a file of either of Arrow's two formats."""
    if not path.exists():
        raise DataError(f"there is no file {path}, which the dataset needs; save it again")
    try:
        source = pa.memory_map(str(path))
        try:
            table = pa.ipc.open_file(source).read_all()
        except pa.ArrowInvalid:
            source.seek(0)
            table = pa.ipc.open_stream(source).read_all()
        table.validate(full=True)  # a wrong offset in a damaged file would end the process
        return table
    except PermissionError:
        raise
    except (OSError, pa.ArrowException) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise DataError(f"{path} cannot be read as Arrow ({reason}); write it again") from None


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"there is no file {path}; save the dataset again") from None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise DataError(f"{path} is not what save_to_disk writes; save the dataset again")
    return found
