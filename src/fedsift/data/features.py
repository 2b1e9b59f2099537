"""Features of a frozen network, made before: parquet files with a list of numbers per sample.

    <FEDSIFT_DATA>/<folder>/{train,test}.parquet      inputs: list of numbers; label: class number

Files are made elsewhere and are on no hub. Columns of labels from elsewhere, such as people's,
may be in some splits only.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from fedsift.data import parquet
from fedsift.data.dataset import Dataset, Location, Source
from fedsift.data.hub import VARIABLE, read_labels
from fedsift.errors import DataError


@dataclass(frozen=True)
class StoredFeatures:
    """Reads the files of ``folder``; ``given`` are columns of labels from elsewhere."""

    folder: str
    given: tuple[str, ...] = ()
    input_column: str = "inputs"
    label_column: str = "label"

    def read(self, dataset: Dataset, split: str) -> Source:
        """Read the labels of a split; its features are read when first asked for."""
        path = self._folder() / f"{split}.parquet"
        if not path.is_file():
            raise DataError(
                f"there is no {path}; put the features of {dataset.name} there, or set {VARIABLE} "
                f"to the folder that has {self.folder}"
            )
        columns, files = parquet.columns(path), (path,)
        known = [name for name in self.given if name in columns]
        return Source(
            name=f"{dataset.name}/{split}",
            labels=read_labels(dataset, files, self.label_column),
            class_names=dataset.class_names,
            shape=dataset.shape,
            decode=FeatureColumn(path, self.input_column, dataset.shape[0]),
            given={name: read_labels(dataset, files, name) for name in known},
            files=files,
            columns=columns,
        )

    def where(self, dataset: Dataset) -> Location:
        """Return the folder; it is missing where a split is."""
        folder = self._folder()
        found = all((folder / f"{split}.parquet").is_file() for split in dataset.splits)
        return Location("path" if found else "missing", str(folder))

    def _folder(self) -> Path:
        return Path(os.environ.get(VARIABLE) or f"${VARIABLE}").expanduser() / self.folder


@dataclass(frozen=True)
class FeatureColumn:
    """Rows of a column of lists that all have ``length`` numbers."""

    path: Path
    column: str
    length: int

    def __call__(self, indices: Tensor) -> Tensor:
        """Return float32 ``[k, length]``."""
        return self.numbers[indices].float()

    @cached_property
    def numbers(self) -> Tensor:
        """All rows, in the precision of the file."""
        column = parquet.read_column(self.path, self.column).combine_chunks()
        kind = column.type
        if not (pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind)):
            raise DataError(
                f"column {self.column!r} of {self.path} has type {kind}; features must be lists of "
                "numbers"
            )
        flat = np.array(column.flatten())
        if len(flat) != len(column) * self.length:
            raise DataError(
                f"column {self.column!r} of {self.path} has {len(flat)} numbers in {len(column)} "
                f"rows; {self.length} per row were expected"
            )
        return torch.from_numpy(flat.reshape(-1, self.length))
