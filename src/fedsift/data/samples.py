"""Samples as their owner has them: nothing is scaled, encoded or numbered yet.

A source (``data/sources``) reads them; a ``Schema`` makes inputs and class numbers of them. What
a person sees, in the audit and on the review page, is the content: raw values and pictures.

| content    | a sample is                                             |
|------------|---------------------------------------------------------|
| `Table`    | a row with named columns: numbers, categories, text     |
| `Pictures` | an image, decoded when it is asked for                  |
| `Arrays`   | numbers that go to the model as they are                |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from fedsift.data.images import png
from fedsift.problem.inputs import Inputs, sample, select

SHOWN_FIELDS = 200
Pixels = npt.NDArray[Any]


@runtime_checkable
class Content(Protocol):
    """What a label is about."""

    kind: ClassVar[str]

    def __len__(self) -> int: ...

    def fields(self, index: int) -> dict[str, Any]:
        """Return what can be read of a sample, by name: columns, text, a file's name."""
        ...

    def picture(self, index: int) -> bytes | None:
        """Draw a sample as PNG; None where it is not a picture."""
        ...

    def own_pixels(self, index: int) -> Pixels | None:
        """Return a picture with its own size and values, [H, W] or [H, W, 3]."""
        ...

    def choose(self, rows: Sequence[int]) -> Content:
        """Return some of the samples, in this order."""
        ...


@dataclass(frozen=True, eq=False)
class Table:
    """Rows with named columns, as they were read; a missing value is NaN or None."""

    kind: ClassVar[str] = "table"
    frame: pd.DataFrame

    def __len__(self) -> int:
        return len(self.frame)

    def fields(self, index: int) -> dict[str, Any]:
        """Return a row by column; what is missing is None."""
        row = self.frame.iloc[index].to_dict()
        return {str(name): None if pd.isna(v) else v for name, v in row.items()}

    def picture(self, index: int) -> bytes | None:  # noqa: ARG002
        """Return nothing: a row is read, not drawn."""
        return None

    def own_pixels(self, index: int) -> Pixels | None:  # noqa: ARG002
        """Return nothing."""
        return None

    def choose(self, rows: Sequence[int]) -> Table:
        """Return some of the rows."""
        return Table(self.frame.iloc[list(rows)].reset_index(drop=True))


@dataclass(frozen=True, eq=False)
class Pictures:
    """Images of one size and one pixel type.

    ``pixels`` decodes one: [H, W] or [H, W, 3] of ``dtype`` (uint8, uint16 or float32), the values
    of the file, resized where the user asked for it. ``original`` decodes it as it is; None: as
    ``pixels`` does. ``about`` has fields of a sample that a person would want: its file's name.
    """

    kind: ClassVar[str] = "image"
    count: int
    height: int
    width: int
    channels: int
    dtype: str
    pixels: Callable[[int], Pixels]
    about: Callable[[int], Mapping[str, Any]] = field(default=lambda _: {})
    original: Callable[[int], Pixels] | None = None

    def __len__(self) -> int:
        return self.count

    def fields(self, index: int) -> dict[str, Any]:
        """Return the file's name and the like."""
        return dict(self.about(index))

    def picture(self, index: int) -> bytes | None:
        """Draw it, its darkest value black and its brightest white."""
        pixels = torch.from_numpy(np.asarray(self.pixels(index), np.float32))
        image = pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1)
        return png(image)

    def own_pixels(self, index: int) -> Pixels | None:
        """Return it as it is in its file."""
        return np.asarray((self.original or self.pixels)(index))

    def choose(self, rows: Sequence[int]) -> Pictures:
        """Return some of the pictures; none is decoded."""
        kept, own = tuple(rows), self.original
        return replace(
            self,
            count=len(kept),
            pixels=lambda index: self.pixels(kept[index]),
            about=lambda index: self.about(kept[index]),
            original=None if own is None else lambda index: own(kept[index]),
        )


@dataclass(frozen=True, eq=False)
class Arrays:
    """Numbers that go to the model as they are; images are [n, C, H, W]."""

    kind: ClassVar[str] = "array"
    inputs: Inputs
    names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.inputs)

    def fields(self, index: int) -> dict[str, Any]:
        """Return the first numbers of a sample, by the columns' names where there are any."""
        values = sample(self.inputs, index).flatten()[:SHOWN_FIELDS].tolist()
        names = self.names or tuple(f"field {n}" for n in range(len(values)))
        return dict(zip(names, values, strict=False))

    def picture(self, index: int) -> bytes | None:
        """Draw a sample that is an image of 1 or 3 channels."""
        if len(self.inputs.shape) != 4 or self.inputs.shape[1] not in {1, 3}:
            return None
        return png(sample(self.inputs, index))

    def own_pixels(self, index: int) -> Pixels | None:
        """Return an image of 1 or 3 channels."""
        if len(self.inputs.shape) != 4 or self.inputs.shape[1] not in {1, 3}:
            return None
        image = sample(self.inputs, index).permute(1, 2, 0).numpy()
        return image[:, :, 0] if image.shape[2] == 1 else image

    def choose(self, rows: Sequence[int]) -> Arrays:
        """Return some of the samples; stored ones are not read."""
        return Arrays(select(self.inputs, torch.tensor(rows, dtype=torch.int64)), self.names)


@dataclass(frozen=True, eq=False, repr=False)
class Samples:
    """Samples with the names that their owner uses; ``fs.read`` makes them.

    Attributes:
        where: The file, folder or function they came from, for messages.
        content: The rows, pictures or arrays themselves.
        labels: The name of each sample's class; a number or a boolean as its text.
        ids: What the owner calls the samples; None: their positions.
        classes: All classes in order, where the source knows them; None: those that occur.
        notes: What was left out and why, one sentence each.
    """

    where: str
    content: Content
    labels: tuple[str, ...]
    ids: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        classes = len(self.classes or set(self.labels))
        kind = self.content.kind
        return f"Samples({len(self)} of {self.where}, kind {kind}, {classes} classes)"

    @property
    def names(self) -> tuple[str, ...]:
        """The samples' ids; their positions where they have none."""
        return self.ids or tuple(map(str, range(len(self))))

    def choose(self, rows: Sequence[int]) -> Self:
        """Return some of the samples, in this order; they keep their names."""
        return replace(
            self,
            content=self.content.choose(rows),
            labels=tuple(self.labels[n] for n in rows),
            ids=tuple(self.names[n] for n in rows),
        )


def raw_columns(content: Content, rows: Sequence[int]) -> pd.DataFrame | None:
    """Return these rows of a table as they were read; None where samples are not rows of one."""
    if not isinstance(content, Table):
        return None
    return content.frame.iloc[list(rows)].reset_index(drop=True)
