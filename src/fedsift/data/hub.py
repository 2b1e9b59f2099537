"""Datasets in the layout of the Hugging Face hub: parquet files with PNG images.

Files are looked for in ``<FEDSIFT_DATA>/<hub id>`` when that variable is set, and else in the hub's
own cache, where they are downloaded when needed. Under that folder both the plain name
(``train.parquet``) and the hub's shards (``mnist/train-00000-of-00001.parquet``) are known.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import torch

from fedsift.data import parquet
from fedsift.data.dataset import Dataset, Location, Source
from fedsift.errors import DataError

VARIABLE = "FEDSIFT_DATA"


@dataclass(frozen=True)
class HubImages:
    """Reads images of a repository ``hub_id``, whose parquet files are in ``folder``.

    Pixels are scaled to [0, 1] and standardised with ``mean`` and ``std``, a number per channel.
    """

    hub_id: str
    folder: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    image_column: str = "image"
    label_column: str = "label"
    group_column: str | None = None

    def read(self, dataset: Dataset, split: str) -> Source:
        """Read the labels (and writers) of a split; its images are decoded when asked for."""
        files = self.locate(split)
        return Source(
            name=f"{dataset.name}/{split}",
            labels=read_labels(dataset, files, self.label_column),
            class_names=dataset.class_names,
            shape=dataset.shape,
            decode=parquet.ImageReader(
                files, self.image_column, dataset.shape, self.mean, self.std
            ),
            groups=None if self.group_column is None else _groups(files, self.group_column),
            files=files,
            columns=parquet.columns(files[0]),
        )

    def where(self, dataset: Dataset) -> Location:
        """Return the local folder where FEDSIFT_DATA is set, else the repository."""
        folder = self._local_folder()
        if folder is None:
            return Location("hub", self.hub_id)
        found = all(self._find(split, folder) for split in dataset.splits)
        return Location("path" if found else "missing", str(folder))

    def locate(self, split: str) -> tuple[Path, ...]:
        """Return the files of a split in order, downloading them if no local folder is set."""
        folder = self._local_folder() or self._download(split)
        files = self._find(split, folder)
        if not files:
            raise DataError(
                f"there is no {split}.parquet and no {self.folder}/{split}-*.parquet in {folder}; "
                f"put the files of {self.hub_id} there, or unset {VARIABLE} to download them"
            )
        _check_complete(files)
        return files

    def _local_folder(self) -> Path | None:
        root = os.environ.get(VARIABLE)
        return Path(root).expanduser() / self.hub_id if root else None

    def _find(self, split: str, folder: Path) -> tuple[Path, ...]:
        """Return the files of a split in a folder: one plain file, or the shards there are."""
        for place in (folder, folder / self.folder):
            if (place / f"{split}.parquet").is_file():
                return (place / f"{split}.parquet",)
            shards = sorted(place.glob(f"{split}-*.parquet"))
            if shards:
                return tuple(shards)
        return ()

    def _download(self, split: str) -> Path:
        hub = parquet.require("huggingface_hub")
        names = (f"{split}.parquet", f"{split}-*.parquet")
        try:
            folder = hub.snapshot_download(
                self.hub_id,
                repo_type="dataset",
                allow_patterns=[*names, *(f"{self.folder}/{name}" for name in names)],
            )
        except Exception as error:  # which types depends on the HTTP library of the hub client
            raise DataError(
                f"the {split} files of {self.hub_id} could not be downloaded ({_brief(error)}); "
                f"check the connection, or set {VARIABLE} to a folder that has "
                f"{self.hub_id}/{split}.parquet"
            ) from error
        return Path(folder)


def _check_complete(shards: tuple[Path, ...]) -> None:
    """Refuse a half-copied dataset: shard names say how many there are."""
    total = re.search(r"-of-(\d+)", shards[0].name)
    if total and int(total[1]) != len(shards):
        raise DataError(
            f"{shards[0].parent} has {len(shards)} of the {int(total[1])} files that "
            f"{shards[0].name} belongs to; fetch the others too"
        )


def read_labels(dataset: Dataset, files: tuple[Path, ...], name: str) -> torch.Tensor:
    """Read a column of class numbers over all files."""
    parts = []
    for path in files:
        column = parquet.read_column(path, name)
        if not pa.types.is_integer(column.type):
            raise DataError(
                f"column {name!r} of {path} has type {column.type}; labels must be integers"
            )
        labels = torch.tensor(column.to_numpy(), dtype=torch.int64)
        classes = len(dataset.class_names)
        if len(labels) and (labels.min() < 0 or labels.max() >= classes):
            raise DataError(
                f"column {name!r} of {path} has labels from {int(labels.min())} to "
                f"{int(labels.max())}; {dataset.name} has the classes 0 to {classes - 1}"
            )
        parts.append(labels)
    result = torch.cat(parts)
    if not len(result):
        raise DataError(f"{files[0]} has no rows; fetch it again")
    return result


def _groups(files: tuple[Path, ...], column: str) -> torch.Tensor:
    """Return the writers as numbers 0, 1, ... in order of first appearance over all files."""
    chunks = [chunk for path in files for chunk in parquet.read_column(path, column).chunks]
    codes = pa.chunked_array(chunks).combine_chunks().dictionary_encode().indices
    return torch.tensor(codes.to_numpy(), dtype=torch.int64)


def _brief(error: Exception) -> str:
    text = str(error).strip().partition("\n")[0].rstrip(".")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
