"""A user's own file with the corrected labels beside the given ones, all else as it was.

| source               | written                                                             |
|----------------------|---------------------------------------------------------------------|
| .csv, .tsv, also .gz | the same rows; a column ``<label>_corrected`` after the label's     |
| .parquet, a folder   | the same, a row group at a time, in the label's own type            |
| .arrow, .feather     | the same                                                            |
| class folders        | a .csv, a row per image: ``file``, ``label``, ``label_corrected``   |

A label that was not changed is copied as it is spelt in the file, another one as the file spells
that class elsewhere. Where a sample is unusable the cell is empty.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fedsift.data.parquet import opened
from fedsift.data.samples import Samples
from fedsift.data.sources import ReadOptions, read
from fedsift.data.sources.arrow_file import mapped
from fedsift.data.sources.csv_file import SUFFIXES as CSV
from fedsift.data.sources.csv_file import open_text, separator_of
from fedsift.data.sources.image_folder import is_image_folder
from fedsift.data.sources.parquet_file import is_parquet_folder, parquet_files
from fedsift.errors import DataError
from fedsift.files import write_atomically

ARROW = (".arrow", ".feather")
ENDING = "_corrected"


@dataclass(frozen=True)
class OwnFile:
    """Where a site's samples are, and how they are read."""

    data: str
    options: ReadOptions

    @property
    def path(self) -> Path:
        """The file or folder."""
        return Path(self.data)

    @property
    def is_images(self) -> bool:
        """Whether it is a folder of class folders."""
        return self.path.is_dir() and is_image_folder(self.path) and not self.is_table

    @property
    def is_table(self) -> bool:
        """Whether a column can be added to it."""
        ends = (*CSV, ".parquet", *ARROW)
        return is_parquet_folder(self.path) or self.path.name.lower().endswith(ends)

    @property
    def column(self) -> str:
        """The column that is added."""
        return f"{'label' if self.is_images else self.options.label_column}{ENDING}"

    @property
    def name(self) -> str:
        """What the written file is called unless somebody names it."""
        return "images.csv" if self.is_images else f"corrected-{self.path.name}"

    @property
    def reading(self) -> str:
        """The options that read the written file."""
        given = "label" if self.is_images else self.options.label_column
        return f"--label-column {self.column} --ignore-column {given}"


@dataclass(frozen=True)
class _New:
    """The new label of every row, None where the sample is unusable."""

    samples: Samples
    labels: Sequence[str | None]

    def cells(self, given: Sequence[Any], make: Callable[[str], Any]) -> list[Any]:
        """Return the column's cells, spelt as the given ones are."""
        if len(given) != len(self.labels):
            raise DataError(
                f"{self.samples.where} has {len(given)} rows of which {len(self.labels)} can be "
                "read; take the others out of it first"
            )
        spelling: dict[str, Any] = {}
        for name, cell in zip(self.samples.labels, given, strict=True):
            spelling.setdefault(name, cell)
        return [
            None if new is None else cell if new == old else spelling.get(new, make(new))
            for new, old, cell in zip(self.labels, self.samples.labels, given, strict=True)
        ]


def write_own(own: OwnFile, labels: Mapping[str, str | None], out: Path) -> Path:
    """Write the file with corrected labels; ``labels`` are by the samples' names."""
    if not own.is_table and not own.is_images:
        raise DataError(
            f"{own.data} cannot get a column of corrected labels; export csv or parquet and join "
            "it with your data by id"
        )
    target = own.path.resolve()
    if target == out.resolve() or (target.is_dir() and target in out.resolve().parents):
        raise DataError(f"{out} is the data themselves; choose another file")
    samples = read(own.data, own.options)
    new = _New(samples, [labels.get(n, old) for n, old in zip(*_pairs(samples), strict=True)])
    if own.is_images:
        _write_list(own, new, out)
    elif own.path.name.lower().endswith(CSV):
        write_atomically(out, partial(_write_csv, own, new, out.name))
    elif own.path.name.lower().endswith(ARROW):
        table = _with_column(mapped(own.path), own, new)
        write_atomically(out, partial(_write_arrow, table))
    else:
        _write_parquet(own, new, out)
    return out


def _pairs(samples: Samples) -> tuple[Sequence[str], Sequence[str]]:
    return samples.names, samples.labels


def _write_csv(own: OwnFile, new: _New, name: str, path: Path) -> None:
    """Write the table; the name of the written file says by which separator, and if compressed."""
    with open_text(own.path) as file:
        text = file.read()
    rows = [row for row in csv.reader(io.StringIO(text), delimiter=separator_of(own.path)) if row]
    at = rows[0].index(own.options.label_column)
    _check_free(own, rows[0])
    cells = [own.column, *new.cells([row[at] for row in rows[1:]], str)]
    out = io.StringIO()
    ending = "\r\n" if "\r\n" in text[:100_000] else "\n"
    writer = csv.writer(out, delimiter=separator_of(Path(name)), lineterminator=ending)
    for row, cell in zip(rows, cells, strict=True):
        writer.writerow([*row[: at + 1], "" if cell is None else cell, *row[at + 1 :]])
    data = out.getvalue().encode("utf-8")
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


def _write_parquet(own: OwnFile, new: _New, out: Path) -> None:
    files, start = parquet_files(own.path), 0
    given = [cell for file in files for cell in _column(file, own.options.label_column)]
    cells = new.cells(given, _maker(new.samples, given))
    for file in files:
        with opened(file) as source:
            count = source.metadata.num_rows
            part = cells[start : start + count]
            target = out / file.name if own.path.is_dir() else out
            write_atomically(target, partial(_copy_groups, own, source, part))
        start += count


def _copy_groups(own: OwnFile, source: Any, cells: list[Any], path: Path) -> None:
    schema, done = _schema(source.schema_arrow, own), 0
    with pq.ParquetWriter(path, schema) as writer:
        for group in range(source.num_row_groups):
            table = source.read_row_group(group)
            part = cells[done : done + len(table)]
            done += len(part)
            writer.write_table(_add(table, own, part, schema), row_group_size=max(len(part), 1))


def _with_column(table: Any, own: OwnFile, new: _New) -> Any:
    given = table.column(own.options.label_column).to_pylist()
    cells = new.cells(given, _maker(new.samples, given))
    return _add(table, own, cells, _schema(table.schema, own))


def _add(table: Any, own: OwnFile, cells: list[Any], schema: Any) -> Any:
    at = table.schema.get_field_index(own.options.label_column) + 1
    field = schema.field(at)
    return table.add_column(at, field, pa.array(cells, type=field.type)).cast(schema)


def _schema(schema: Any, own: OwnFile) -> Any:
    """Return the columns with the new one, also where Hugging Face lists them."""
    _check_free(own, schema.names)
    at = schema.get_field_index(own.options.label_column)
    kind = schema.field(at).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    metadata = dict(schema.metadata or {})
    if b"huggingface" in metadata:
        said = json.loads(metadata[b"huggingface"])
        features = said.get("info", {}).get("features", {})
        if own.options.label_column in features:
            features[own.column] = features[own.options.label_column]
            metadata[b"huggingface"] = json.dumps(said).encode()
    return schema.insert(at + 1, pa.field(own.column, kind)).with_metadata(metadata)


def _write_arrow(table: Any, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def _write_list(own: OwnFile, new: _New, out: Path) -> None:
    """Write a row per image; paths start from the written file's folder where they can."""
    here, there = out.resolve().parent, own.path.resolve()
    files = [there / name for name in new.samples.names]
    inside = here == there or here in there.parents
    shown = [os.path.relpath(file, here) if inside else str(file) for file in files]
    rows = zip(shown, new.samples.labels, new.labels, strict=True)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        [("file", "label", own.column), *((f, old, new or "") for f, old, new in rows)]
    )
    write_atomically(out, lambda path: _put(path, text.getvalue()))


def _put(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _column(path: Path, name: str) -> list[Any]:
    with opened(path) as file:
        cells: list[Any] = file.read(columns=[name]).column(0).to_pylist()
    return cells


def _maker(samples: Samples, given: Sequence[Any]) -> Callable[[str], Any]:
    """Return what makes a cell of a class that no row has yet."""
    first = next((cell for cell in given if cell is not None), "")
    if isinstance(first, bool):
        return lambda name: name == "true"
    if isinstance(first, int | float):
        classes = samples.classes
        return lambda name: type(first)(classes.index(name) if classes else float(name))
    return str


def _check_free(own: OwnFile, columns: Sequence[str]) -> None:
    if own.column in columns:
        raise DataError(
            f"{own.data} already has a column {own.column!r}; rename it, or export csv or parquet"
        )
