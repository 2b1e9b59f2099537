"""Datasets in the layout of the Hugging Face hub: parquet files with PNG images.

Files are looked for in ``<FEDSIFT_DATA>/<hub id>`` when that variable is set, and else in the hub's
own cache, where they are downloaded at need. Under that folder both the plain name
(``train.parquet``) and the hub's shards (``mnist/train-00000-of-00001.parquet``) are known.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyarrow as pa
import torch

from fedsift.data import parquet
from fedsift.data.defaults import Dataset
from fedsift.data.source import Source
from fedsift.errors import DataError

VARIABLE = "FEDSIFT_DATA"


def load(row: Dataset, split: str) -> Source:
    """Read the labels (and writers) of a split; its images are decoded when asked for."""
    files = locate(row, split)
    return Source(
        name=f"{row.name}/{split}",
        labels=_labels(row, files),
        class_names=row.class_names,
        shape=row.shape,
        decode=parquet.ImageReader(files, row.image_column, row.shape, row.mean, row.std),
        groups=None if row.group_column is None else _groups(files, row.group_column),
    )


def locate(row: Dataset, split: str) -> tuple[Path, ...]:
    """Return the files of a split in order, downloading them if no local folder is set."""
    folder = local_folder(row) or _download(row, split)
    files = find(row, split, folder)
    if not files:
        raise DataError(
            f"There is no {split}.parquet and no {row.folder}/{split}-*.parquet of {row.name} in "
            f"{folder}; put the files of {row.hub_id} there, or unset {VARIABLE} to download them."
        )
    _check_complete(files)
    return files


def local_folder(row: Dataset) -> Path | None:
    """Return the folder of a dataset under FEDSIFT_DATA, or ``None`` if that is not set."""
    root = os.environ.get(VARIABLE)
    return Path(root).expanduser() / str(row.hub_id) if root else None


def find(row: Dataset, split: str, folder: Path) -> tuple[Path, ...]:
    """Return the files of a split in a folder: one plain file, or the shards there are."""
    for place in (folder, folder / row.folder):
        if (place / f"{split}.parquet").is_file():
            return (place / f"{split}.parquet",)
        shards = sorted(place.glob(f"{split}-*.parquet"))
        if shards:
            return tuple(shards)
    return ()


def _check_complete(shards: tuple[Path, ...]) -> None:
    """Refuse a half-copied dataset: shard names say how many there are."""
    total = re.search(r"-of-(\d+)", shards[0].name)
    if total and int(total[1]) != len(shards):
        raise DataError(
            f"{shards[0].parent} has {len(shards)} of the {int(total[1])} files that "
            f"{shards[0].name} belongs to; fetch the others too."
        )


def _download(row: Dataset, split: str) -> Path:
    hub = parquet.require("huggingface_hub")
    names = (f"{split}.parquet", f"{split}-*.parquet")
    try:
        folder = hub.snapshot_download(
            row.hub_id,
            repo_type="dataset",
            allow_patterns=[*names, *(f"{row.folder}/{name}" for name in names)],
        )
    except Exception as error:  # which types depends on the HTTP library that the hub client uses
        raise DataError(
            f"The {split} files of {row.hub_id} could not be downloaded ({_brief(error)}); check "
            f"the connection, or set {VARIABLE} to a folder that has {row.hub_id}/{split}.parquet."
        ) from error
    return Path(folder)


def _labels(row: Dataset, files: tuple[Path, ...]) -> torch.Tensor:
    parts = []
    for path in files:
        column = parquet.read_column(path, row.label_column)
        if not pa.types.is_integer(column.type):
            raise DataError(
                f"Column {row.label_column!r} of {path} has type {column.type}; labels must be "
                "integers."
            )
        labels = torch.tensor(column.to_numpy(), dtype=torch.int64)
        classes = len(row.class_names)
        if len(labels) and (labels.min() < 0 or labels.max() >= classes):
            raise DataError(
                f"Column {row.label_column!r} of {path} has labels from {int(labels.min())} to "
                f"{int(labels.max())}; {row.name} has the classes 0 to {classes - 1}."
            )
        parts.append(labels)
    result = torch.cat(parts)
    if not len(result):
        raise DataError(f"{files[0]} has no rows; fetch it again.")
    return result


def _groups(files: tuple[Path, ...], column: str) -> torch.Tensor:
    """Return the writers as numbers 0, 1, ... in order of first appearance over all files."""
    chunks = [chunk for path in files for chunk in parquet.read_column(path, column).chunks]
    codes = pa.chunked_array(chunks).combine_chunks().dictionary_encode().indices
    return torch.tensor(codes.to_numpy(), dtype=torch.int64)


def _brief(error: Exception) -> str:
    text = str(error).strip().partition("\n")[0].rstrip(".")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
