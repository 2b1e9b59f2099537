"""A pandas DataFrame as samples: one column is the label, one may be the id, the rest is content.

A column of paths of images is found by itself: all its values end in .png, .jpg, ... and are files,
as they stand or from the table's own folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fedsift.data.samples import Samples, Table
from fedsift.data.sources.gallery import Images, gallery
from fedsift.data.sources.names import Names, first_few, id_names, label_names
from fedsift.data.sources.options import ReadOptions
from fedsift.data.sources.pixels import SUFFIXES
from fedsift.errors import DataError


@dataclass(frozen=True, eq=False)
class Rows:
    """What a table says of its samples, and the columns that are left."""

    labels: Names
    ids: Names | None
    rest: pd.DataFrame

    def about(self, row: int) -> dict[str, object]:
        """Return the other columns of a row, for people to read."""
        return Table(self.rest).fields(row)


def from_frame(
    frame: pd.DataFrame,
    where: str,
    options: ReadOptions,
    folder: Path | None = None,
    classes: Names | None = None,
) -> Samples:
    """Make samples of a table; paths in it start from ``folder``."""
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    check_columns(tuple(frame.columns), where, options)
    rows = split(frame, where, options, classes)
    column, notes = _image_column(rows.rest, where, options, folder or Path())
    if column is not None:
        return _from_paths(rows, column, where, options, folder or Path(), classes)
    if not rows.rest.shape[1]:
        raise DataError(f"{where} has no column besides label and id; add what a model can use")
    return Samples(where, Table(rows.rest), rows.labels, rows.ids, classes, notes)


def check_columns(columns: Sequence[str], where: str, options: ReadOptions) -> None:
    """Refuse a name that occurs twice, and options that name a column that is not there."""
    check_distinct(columns, where)
    wanted = [
        ("--label-column", options.label_column),
        ("--id-column", options.id_column),
        ("--image-column", options.image_column),
        *(("--ignore-column", name) for name in options.ignore_columns),
    ]
    for option, name in wanted:
        if name is not None and name not in columns:
            raise DataError(
                f"{where} has no column {name!r} (it has {first_few(columns, 12) or 'none'}); "
                f"name another with {option}"
            )


def check_distinct(columns: Sequence[str], where: str) -> None:
    """Refuse a name that occurs twice."""
    if twice := [name for name, count in Counter(columns).items() if count > 1]:
        raise DataError(f"{where} has two columns {twice[0]!r}; give each its own name")


def split(frame: pd.DataFrame, where: str, options: ReadOptions, classes: Names | None) -> Rows:
    """Take labels and ids out of a table whose columns have been checked."""
    if frame.empty:
        raise DataError(f"{where} has no rows; a site needs samples")
    label, name = options.label_column, options.id_column
    labels = label_names(frame[label], f"column {label!r} of {where}", classes)
    ids = None if name is None else id_names(frame[name], f"column {name!r} of {where}")
    taken = [label, *options.ignore_columns, *([name] if name is not None else [])]
    return Rows(labels, ids, frame.drop(columns=taken).reset_index(drop=True))


def images_beside(columns: Sequence[str]) -> tuple[str, ...]:
    """Say that columns beside an image are read by people only."""
    listed = ", ".join(columns)
    return (f"columns beside the image are shown but not trained on: {listed}",) if columns else ()


def _image_column(
    table: pd.DataFrame, where: str, options: ReadOptions, folder: Path
) -> tuple[str | None, tuple[str, ...]]:
    """Return the column of paths, and a note on one that only looks like it."""
    if options.image_column is not None:
        return options.image_column, ()
    notes = []
    for name in table.columns:
        values = table[name]
        if not (pd.api.types.is_string_dtype(values.dtype) or values.dtype == object):
            continue
        if not all(isinstance(v, str) and v.lower().endswith(SUFFIXES) for v in values):
            continue
        missing = [v for v in values if not (folder / v).is_file()]
        if not missing:
            return str(name), ()
        if len(missing) < len(values):
            raise DataError(
                f"column {name!r} of {where} names {len(missing)} images that are not there, such "
                f"as {missing[0]}; restore them, drop the rows or give --ignore-column {name}"
            )
        notes.append(f"column {name!r} has names of images that are not there: read as categories")
    return None, tuple(notes)


def _from_paths(
    rows: Rows,
    column: str,
    where: str,
    options: ReadOptions,
    folder: Path,
    classes: Names | None,
) -> Samples:
    values = rows.rest[column]
    if wrong := [row for row, path in enumerate(values) if not isinstance(path, str) or not path]:
        raise DataError(f"column {column!r} of {where} has no path in row {wrong[0]}; give one")
    texts = [str(value) for value in values]
    paths = [folder / text for text in texts]
    images = Images(lambda: paths, paths.__getitem__, lambda row: str(paths[row]), rows.about)
    found = gallery(images, where, options)
    ids = rows.ids or (tuple(texts) if len(set(texts)) == len(texts) else None)
    beside = [str(name) for name in rows.rest.columns if name != column]
    return Samples(
        where,
        found.content,
        tuple(rows.labels[row] for row in found.rows),
        None if ids is None else tuple(ids[row] for row in found.rows),
        classes,
        (*images_beside(beside), *found.notes),
    )
