"""What a user can say about a file besides its name."""

from __future__ import annotations

from dataclasses import dataclass

from fedsift.errors import DataError

LARGEST_SIDE = 1 << 14


@dataclass(frozen=True)
class ReadOptions:
    """How files are read; what does not concern a format is not looked at.

    ``label_column``     the column with the given labels
    ``id_column``        the column with the owner's names of the samples
    ``ignore_columns``   columns that are left out
    ``image_column``     the column with images or with paths of images; None: looked for
    ``image_size``       (height, width) that images are resized to; None: they are left as they are
    ``skip_unreadable``  leave images out that cannot be read, and say so in the notes
    """

    label_column: str = "label"
    id_column: str | None = None
    ignore_columns: tuple[str, ...] = ()
    image_column: str | None = None
    image_size: tuple[int, int] | None = None
    skip_unreadable: bool = False

    def __post_init__(self) -> None:
        given = [self.label_column, self.id_column, self.image_column, *self.ignore_columns]
        names = [name for name in given if name is not None]
        if twice := [name for name in names if names.count(name) > 1]:
            raise DataError(
                f"column {twice[0]!r} is named for two purposes; a column is the label, the id, "
                "the image or ignored"
            )
        if self.image_size and not all(0 < side <= LARGEST_SIDE for side in self.image_size):
            height, width = self.image_size
            raise DataError(
                f"the image size {height}x{width} is not possible; give 1 to {LARGEST_SIDE} for "
                "height and width"
            )


def image_size(text: str) -> tuple[int, int]:
    """Read ``HxW`` or one number for both."""
    sides = text.lower().split("x")
    if len(sides) > 2 or not all(side.isascii() and side.isdigit() for side in sides):
        raise DataError(f"the image size {text!r} is not HxW or one number; write 224 or 240x320")
    return int(sides[0]), int(sides[-1])
