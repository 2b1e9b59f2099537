"""What a dataset is: a row of facts, a reader that knows its files, and splits of samples.

Dataset   a row of ``DATASETS``: name, classes, shape, the sizes to use by default
Reader    how that row's samples are found and read; a new kind of file is a new reader
Source    one split: its labels now, its inputs when asked for
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from torch import Tensor

from fedsift.errors import DataError
from fedsift.memory import aligned

Shape = tuple[int, ...]
"""Of one input: channels, height and width of an image, or the number of columns of a table."""


@dataclass(frozen=True, eq=False)
class Source:
    """Labels of ``n`` samples, and a function that decodes any of their inputs.

    ``labels`` and ``groups`` are int64 of length ``n``; ``groups`` numbers the writers, where the
    dataset knows them. ``given`` are labels from elsewhere, such as people's, by the name of their
    column. ``files`` and ``columns`` (name and type) say what was read.
    """

    name: str
    labels: Tensor
    class_names: tuple[str, ...]
    shape: Shape
    decode: Callable[[Tensor], Tensor]
    groups: Tensor | None = None
    given: Mapping[str, Tensor] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)

    def inputs(self, indices: Tensor) -> Tensor:
        """Decode these rows, and only these, to float32 ``[k, *shape]``."""
        if len(indices) and (indices.min() < 0 or indices.max() >= len(self)):
            raise DataError(f"{self.name} has rows 0 to {len(self) - 1}; ask only for those")
        return aligned(self.decode(indices))


@dataclass(frozen=True)
class Location:
    """Where a dataset would be read from.

    ``kind`` is ``embedded``, ``path`` (a folder that has the files), ``missing`` (a folder that
    should have them), ``hub`` (downloaded on first use) or a word of the reader's own; ``place``
    is the package, folder or repository.
    """

    kind: str
    place: str


class Reader(Protocol):
    """Finds and reads the samples of a dataset."""

    def read(self, dataset: Dataset, split: str) -> Source:
        """Read a split; what takes long (images, texts) is left to ``Source.decode``."""
        ...

    def where(self, dataset: Dataset) -> Location:
        """Say where the dataset would be read from, without reading or downloading it."""
        ...


@dataclass(frozen=True)
class Dataset:
    """A row of ``DATASETS``: how to read a dataset, and the sizes to use where none are given.

    ``samples_per_client``, ``validation_size``, ``test_size``   ``None`` takes all there are
    ``writers``   how many for the clients and for validation, the rest being the test set; for a
                  dataset that knows its writers and has no test split
    """

    name: str
    description: str
    class_names: tuple[str, ...]
    shape: Shape
    model: str
    reader: Reader
    splits: tuple[str, ...] = ("train", "test")
    partition: str = "iid"
    clients: int = 10
    samples_per_client: int | None = 500
    validation_size: int | None = 500
    test_size: int | None = None
    writers: tuple[int, int] | None = None

    def load(self, split: str) -> Source:
        """Load a split: its labels, and its inputs when asked for."""
        if split not in self.splits:
            raise DataError(f"{self.name} has no split {split!r}; it has {', '.join(self.splits)}")
        return self.reader.read(self, split)

    def where(self) -> Location:
        """Say where it would be read from."""
        return self.reader.where(self)
