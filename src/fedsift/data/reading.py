"""``fs.read``: samples of a file, a folder, a function or a value, with the options by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsift.data.samples import Samples
from fedsift.data.sources import ReadOptions, as_samples
from fedsift.data.sources import read as read_path

__all__ = ["Samples", "read"]


def read(
    data: str | Path | Any,
    *,
    label_column: str = "label",
    id_column: str | None = None,
    ignore_columns: Sequence[str] = (),
    image_column: str | None = None,
    image_size: int | tuple[int, int] | None = None,
    skip_unreadable: bool = False,
) -> Samples:
    """Read samples as they are, with labels and ids as text.

    ``data`` is a path (csv, parquet, Arrow, .npz, a folder of images, ...), ``module:function``, or
    a value: a DataFrame, (inputs, labels), a Dataset of torch or Hugging Face.
    """
    options = ReadOptions(
        label_column,
        id_column,
        tuple(ignore_columns),
        image_column,
        (image_size, image_size) if isinstance(image_size, int) else image_size,
        skip_unreadable,
    )
    if isinstance(data, str | Path):
        return read_path(data, options)
    return as_samples(data, f"the {type(data).__name__}", options)
