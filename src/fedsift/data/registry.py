"""Which datasets there are, where they would be read from, and what is in them."""

from __future__ import annotations

from dataclasses import dataclass

from fedsift.data.dataset import Dataset, Shape, Source
from fedsift.data.datasets import DATASETS, lookup


@dataclass(frozen=True)
class DatasetInfo:
    """A dataset and where it would be found (``Location``); nothing is loaded to say so."""

    name: str
    classes: int
    shape: Shape
    description: str
    where: str
    location: str


@dataclass(frozen=True)
class SplitInfo:
    """What one split is read as."""

    split: str
    files: tuple[str, ...]
    columns: dict[str, str]
    rows: int
    labels: dict[str, int]
    writers: int | None


def available() -> list[DatasetInfo]:
    """List every dataset, without reading or downloading any."""
    return [_describe(row) for row in DATASETS.values()]


def info(name: str) -> list[SplitInfo]:
    """Read the labels of a dataset's splits (no images) and say what they hold."""
    return [_summarise(lookup(name), split) for split in lookup(name).splits]


def load(name: str, split: str) -> Source:
    """Load a split: its labels, and its inputs when asked for."""
    return lookup(name).load(split)


def _describe(row: Dataset) -> DatasetInfo:
    location = row.where()
    return DatasetInfo(
        name=row.name,
        classes=len(row.class_names),
        shape=row.shape,
        description=row.description,
        where=location.kind,
        location=location.place,
    )


def _summarise(row: Dataset, split: str) -> SplitInfo:
    source = row.load(split)
    counts = source.labels.bincount(minlength=len(row.class_names)).tolist()
    return SplitInfo(
        split=split,
        files=tuple(str(path) for path in source.files),
        columns=dict(source.columns),
        rows=len(source),
        labels=dict(zip(row.class_names, counts, strict=True)),
        writers=None if source.groups is None else int(source.groups.max()) + 1,
    )
