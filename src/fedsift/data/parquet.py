"""Columns of parquet files, and the images in them.

An image column has the type ``struct<bytes: binary, path: string>``. Only ``bytes`` is read, only
from the row groups that are needed, and only the rows asked for are decoded.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from torch import Tensor

from fedsift.data.dataset import Shape
from fedsift.errors import DataError

Rows = npt.NDArray[np.int64]

_MODES = {1: ("L", ("1", "L")), 3: ("RGB", ("RGB",))}
"""Channels -> what Pillow should give, and the image modes that are that without loss."""


def columns(path: Path) -> dict[str, str]:
    """Return the name and type of every column of a file."""
    with opened(path) as file:
        return {entry.name: str(entry.type) for entry in file.schema_arrow}


def read_column(path: Path, column: str) -> Any:
    """Read one column of a file as a pyarrow ``ChunkedArray`` without nulls."""
    with opened(path) as file:
        _check_column(path, column, file.schema_arrow)
        values = file.read(columns=[column]).column(column)
    if values.null_count:
        raise DataError(
            f"column {column!r} of {path} is empty in {values.null_count} rows; every sample "
            "needs a value"
        )
    return values


@dataclass(frozen=True)
class ImageReader:
    """Decode rows of an image column that runs over several files, in the order of the files."""

    files: tuple[Path, ...]
    column: str
    shape: Shape
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, indices: Tensor) -> Tensor:
        """Return float32 ``[k, C, H, W]``: pixels in [0, 1], minus ``mean``, over ``std``."""
        channels, height, width = self.shape
        rows = indices.numpy()
        pixels = np.empty((len(rows), height, width, channels), dtype=np.uint8)
        start = 0
        for path in self.files:
            with opened(path) as file:
                stop = start + file.metadata.num_rows
                here = np.flatnonzero((rows >= start) & (rows < stop))
                if here.size:
                    pixels[here] = self._decode(path, file, rows[here] - start)
                start = stop
        mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (self.mean, self.std))
        scaled = torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous().float() / 255
        return (scaled - mean) / std

    def _decode(self, path: Path, file: Any, rows: Rows) -> npt.NDArray[np.uint8]:
        _check_column(path, self.column, file.schema_arrow)
        kind = file.schema_arrow.field(self.column).type
        if not (pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0):
            raise DataError(
                f"column {self.column!r} of {path} has type {kind}; images must be a struct with "
                "the field 'bytes'"
            )
        images = _read_bytes(file, self.column, rows)
        where = (f"row {row} of column {self.column!r} of {path}" for row in rows)
        return np.stack(
            [_pixels(image, self.shape, at) for image, at in zip(images, where, strict=True)]
        )


def _read_bytes(file: Any, column: str, rows: Rows) -> list[bytes | None]:
    """Read the row groups that hold these rows, and pick the rows from them."""
    sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
    ends = np.cumsum(sizes)
    groups = np.searchsorted(ends, rows, side="right")
    used, slot = np.unique(groups, return_inverse=True)
    # Position of a row = its place in its own group + all groups read before that group.
    before = np.concatenate([[0], np.cumsum(np.array(sizes)[used])])[slot]
    positions = rows - (ends - sizes)[groups] + before
    table = file.read_row_groups(used.tolist(), columns=[f"{column}.bytes"])
    images: list[bytes | None] = (
        pc.struct_field(table.column(column), "bytes").take(pa.array(positions)).to_pylist()
    )
    return images


def _pixels(image: bytes | None, shape: Shape, where: str) -> npt.NDArray[np.uint8]:
    """Decode one PNG to ``[H, W, C]``."""
    if not image:
        raise DataError(f"{where} has no image; fetch the file again")
    channels, height, width = shape
    mode, accepted = _MODES[channels]
    try:
        with require("PIL.Image").open(io.BytesIO(image), formats=("PNG",)) as picture:
            found = (picture.mode, picture.size)
            # Compare before decoding: a header may claim any size.
            fits = picture.mode in accepted and picture.size == (width, height)
            array = np.asarray(picture.convert(mode)) if fits else None
    except DataError:
        raise
    except Exception as error:  # Pillow has no common type for a broken image
        raise DataError(f"{where} is not a readable PNG image; fetch the file again") from error
    if array is None:
        raise DataError(
            f"{where} is an image of mode {found[0]} and size {found[1][0]}x{found[1][1]}; "
            f"mode {mode} and size {width}x{height} were expected"
        )
    return array.reshape(height, width, channels)


def require(module: str) -> ModuleType:
    """Import a package of the ``hub`` extra."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = "pillow" if module.startswith("PIL") else module
        raise DataError(
            f"these data need the package {package}; run pip install 'fedsift[hub]'"
        ) from error


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open a file for a while; say so where it is not a whole parquet file."""
    try:
        with pq.ParquetFile(path, memory_map=True) as file:
            yield file
    except (OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise DataError(
            f"{path} cannot be read as parquet ({reason}); fetch or write it again"
        ) from error


def _check_column(path: Path, column: str, schema: Any) -> None:
    if column not in schema.names:
        raise DataError(
            f"{path} has no column {column!r}; it has {', '.join(schema.names)}, so fetch the "
            "dataset's own file"
        )
