"""Columns of Arrow types as samples: what parquet, Arrow and Hugging Face files have in common.

| there is                                       | content    |
|------------------------------------------------|------------|
| a column of images, struct<bytes, path>        | `Pictures` |
| a column `inputs` of lists of numbers          | `Arrays`   |
| columns of numbers, text, dates                | `Table`    |

The names of classes and the image column are also taken from what Hugging Face writes beside the
columns ("features").
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa

from fedsift.data.samples import Arrays, Samples
from fedsift.data.sources.file_rows import Array, FileRows
from fedsift.data.sources.frames import check_columns, from_frame, images_beside, split
from fedsift.data.sources.gallery import Images, gallery
from fedsift.data.sources.names import Names
from fedsift.data.sources.options import ReadOptions
from fedsift.data.sources.pixels import Encoded
from fedsift.data.sources.stored import StoredParts, is_list
from fedsift.errors import DataError

INPUTS = "inputs"
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


class Columns(Protocol):
    """A file with columns, of which some may be too large for memory."""

    @property
    def schema(self) -> Any:
        """Names and types, as a pyarrow schema."""
        ...

    def read(self, names: Sequence[str]) -> Any:
        """Read columns as a pyarrow table."""
        ...

    def arrays(self, name: str, where: str) -> list[Array | FileRows]:
        """Return a column of lists of numbers as arrays, one below the other."""
        ...

    def cells(self, name: str) -> Iterator[Any]:
        """Go through a column, a value at a time."""
        ...

    def cell(self, name: str) -> Callable[[int], Any]:
        """Return what reads one value of a column."""
        ...


def from_columns(
    columns: Columns,
    where: str,
    options: ReadOptions,
    folder: Path | None = None,
    features: Mapping[str, Any] | None = None,
) -> Samples:
    """Make samples of a file's columns; ``features`` is what Hugging Face says of them."""
    schema = columns.schema
    features = features if features is not None else _features(schema)
    check_columns(schema.names, where, options)
    classes = _class_names(features.get(options.label_column))
    image = _image_column(schema, features, where, options)
    if image is not None:
        return _pictures(columns, image, where, options, folder or Path(), classes)
    if INPUTS in schema.names and is_list(schema.field(INPUTS).type):
        return _arrays(columns, where, options, classes)
    frame = _frame(columns, schema.names, where, options)
    return from_frame(frame, where, options, folder, classes)


def _pictures(
    columns: Columns,
    image: str,
    where: str,
    options: ReadOptions,
    folder: Path,
    classes: Names | None,
) -> Samples:
    others = [name for name in columns.schema.names if name != image]
    shown = [n for n in others if not _is_nested(columns.schema.field(n).type) or _used(n, options)]
    rows = split(_frame(columns, shown, where, options), where, options, classes)
    one = columns.cell(image)

    def about(row: int) -> dict[str, Any]:
        return {**_file(one(row)), **rows.about(row)}

    images = Images(
        each=lambda: (_encoded(cell, folder) for cell in columns.cells(image)),
        at=lambda row: _encoded(one(row), folder),
        name=lambda row: f"row {row} of column {image!r} of {where}",
        about=about,
    )
    found = gallery(images, where, options)
    return Samples(
        where,
        found.content,
        tuple(rows.labels[row] for row in found.rows),
        None if rows.ids is None else tuple(rows.ids[row] for row in found.rows),
        classes,
        (*images_beside([str(name) for name in rows.rest.columns]), *found.notes),
    )


def _arrays(columns: Columns, where: str, options: ReadOptions, classes: Names | None) -> Samples:
    others = [n for n in columns.schema.names if n != INPUTS and _used(n, options)]
    rows = split(_frame(columns, others, where, options), where, options, classes)
    name = f"column {INPUTS!r} of {where}"
    parts = StoredParts.of(columns.arrays(INPUTS, name), name)
    return Samples(where, Arrays(parts), rows.labels, rows.ids, classes)


def _frame(
    columns: Columns, names: Sequence[str], where: str, options: ReadOptions
) -> pd.DataFrame:
    """Read columns as pandas has them; ignored ones, which are dropped later, are left empty."""
    kept = [n for n in names if n not in options.ignore_columns and not _PANDAS_INDEX.fullmatch(n)]
    for name in kept:
        kind = columns.schema.field(name).type
        if _is_nested(kind):
            raise DataError(
                f"column {name!r} of {where} has the type {kind}, which is not a number, text or "
                f"date; leave it out with --ignore-column {name}"
            )
    table = columns.read(kept)
    table = table.cast(pa.schema([_plain(field) for field in table.schema]))
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True, date_as_object=False)
    return frame.assign(**dict.fromkeys(options.ignore_columns))


def _plain(field: Any) -> Any:
    return pa.field(field.name, pa.float64() if pa.types.is_decimal(field.type) else field.type)


def _image_column(
    schema: Any, features: Mapping[str, Any], where: str, options: ReadOptions
) -> str | None:
    if options.image_column is not None:
        kind = schema.field(options.image_column).type
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        if text or pa.types.is_dictionary(kind):
            return None  # a column of paths: a matter of the frame
        if not (_is_image(kind) or _is_binary(kind)):
            raise DataError(
                f"column {options.image_column!r} of {where} has the type {kind}; images are "
                "a struct with the field 'bytes', bytes, or paths"
            )
        return options.image_column
    taken = {options.label_column, options.id_column, *options.ignore_columns}
    said = [n for n, f in features.items() if isinstance(f, Mapping) and f.get("_type") == "Image"]
    images = [
        f.name for f in schema if _is_image(f.type) or (f.name in said and _is_binary(f.type))
    ]
    images = [name for name in images if name not in taken]
    if len(images) > 1:
        raise DataError(
            f"{where} has the image columns {', '.join(images)}; choose one with --image-column"
        )
    return images[0] if images else None


def _encoded(cell: Any, folder: Path) -> Encoded | None:
    """Return a cell's image: its bytes, or the file that it names."""
    if not isinstance(cell, Mapping):
        return bytes(cell) if cell is not None else None
    if cell.get("bytes") is not None:
        return bytes(cell["bytes"])
    return folder / cell["path"] if cell.get("path") else None


def _file(cell: Any) -> dict[str, Any]:
    path = cell.get("path") if isinstance(cell, Mapping) else None
    return {"file": path} if path else {}


def _features(schema: Any) -> Mapping[str, Any]:
    """Return the features that Hugging Face keeps in a schema; nothing where there are none."""
    try:
        found = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = found["info"]["features"]
    except (ValueError, KeyError, TypeError):
        return {}
    return features if isinstance(features, Mapping) else {}


def _class_names(feature: Any) -> Names | None:
    if not isinstance(feature, Mapping) or feature.get("_type") != "ClassLabel":
        return None
    names = feature.get("names")
    return tuple(map(str, names)) if isinstance(names, list) and names else None


def _used(name: str, options: ReadOptions) -> bool:
    return name in {options.label_column, options.id_column, *options.ignore_columns}


def _is_image(kind: Any) -> bool:
    return bool(pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0)


def _is_binary(kind: Any) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_nested(kind: Any) -> bool:
    return bool(pa.types.is_nested(getattr(kind, "storage_type", kind)) or _is_binary(kind))
