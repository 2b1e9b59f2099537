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

    Args:
        data: A path (csv, parquet, Arrow, .npz, a folder of images, ...), ``module:function``, or
            a value: a DataFrame, (inputs, labels), a Dataset of torch or Hugging Face.
        label_column: The column that has the label.
        id_column: The column that says what you call a sample; None: its position, or its file.
        ignore_columns: Columns to leave out.
        image_column: The column of images or of their paths; None: found by its type.
        image_size: Resize images to this height and width; None: no resizing.
        skip_unreadable: Whether to leave out images that cannot be read, and count them.

    Returns:
        Samples for ``fs.simulate``, as sites or as its clean set.

    Raises:
        DataError: The file cannot be read, or lacks a column; the sentence says which.

    Examples:
        >>> import pandas as pd, fedsift as fs
        >>> table = pd.DataFrame(
        ...     {"patient": ["P1", "P2"], "age": [61, 47], "diagnosis": ["malignant", "benign"]}
        ... )
        >>> samples = fs.read(table, label_column="diagnosis", id_column="patient")
        >>> samples
        Samples(2 of the DataFrame, kind table, 2 classes)
        >>> samples.labels, samples.ids
        (('malignant', 'benign'), ('P1', 'P2'))
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
