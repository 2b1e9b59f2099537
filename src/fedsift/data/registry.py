"""Which datasets there are, where they would be read from, and what is in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedsift.data import digits, hub, parquet
from fedsift.data.defaults import DEFAULTS, Dataset, lookup
from fedsift.data.source import Shape, Source
from fedsift.errors import DataError


@dataclass(frozen=True)
class DatasetInfo:
    """A dataset and where it would be found; nothing is loaded to say so.

    ``where`` is ``embedded``, ``path`` (in FEDSIFT_DATA), ``missing`` (FEDSIFT_DATA is set but the
    files are not there) or ``hub`` (downloaded on first use); ``location`` is the folder or URL.
    """

    name: str
    hub_id: str | None
    classes: int
    shape: Shape
    description: str
    where: Literal["embedded", "path", "missing", "hub"]
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
    return [_describe(row) for row in DEFAULTS.values()]


def info(name: str) -> list[SplitInfo]:
    """Read the labels of a dataset's splits (no images) and say what they hold."""
    return [_summarise(lookup(name), split) for split in lookup(name).splits]


def load(name: str, split: str) -> Source:
    """Load a split: its labels, and its inputs when asked for."""
    row = lookup(name)
    if split not in row.splits:
        raise DataError(f"{name} has no split {split!r}; it has {', '.join(row.splits)}.")
    return digits.load(split) if row.hub_id is None else hub.load(row, split)


def _describe(row: Dataset) -> DatasetInfo:
    where: Literal["embedded", "path", "missing", "hub"]
    folder = hub.local_folder(row)
    if row.hub_id is None:
        where, location = "embedded", "scikit-learn"
    elif folder is None:
        where, location = "hub", f"https://huggingface.co/datasets/{row.hub_id}"
    else:
        found = all(hub.find(row, split, folder) for split in row.splits)
        where, location = ("path" if found else "missing"), str(folder)
    return DatasetInfo(
        name=row.name,
        hub_id=row.hub_id,
        classes=len(row.class_names),
        shape=row.shape,
        description=row.description,
        where=where,
        location=location,
    )


def _summarise(row: Dataset, split: str) -> SplitInfo:
    source = load(row.name, split)
    files = () if row.hub_id is None else hub.locate(row, split)
    counts = source.labels.bincount(minlength=len(row.class_names)).tolist()
    return SplitInfo(
        split=split,
        files=tuple(str(path) for path in files),
        columns=parquet.columns(files[0]) if files else {},
        rows=len(source),
        labels=dict(zip(row.class_names, counts, strict=True)),
        writers=None if source.groups is None else int(source.groups.max()) + 1,
    )
