"""Options of every command that reads a user's own files."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedsift.data.sources import ReadOptions

EXAMPLES = """\
files that can be read:
  table.csv, table.tsv, table.csv.gz      a header and rows; also .parquet, .arrow, .feather
  x.npz                                   arrays inputs and labels
  scans/                                  a folder of images per class; or inputs.npy and
                                          labels.npy, parquet files, what save_to_disk wrote
  module:function                         returns (inputs, labels), a DataFrame or a Dataset

  --label-column diagnosis --id-column patient --ignore-column notes
  --image-column scan --image-size 224    a column of paths or images, resized to 224x224
"""


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how files are read."""
    group = parser.add_argument_group("reading files")
    group.add_argument(
        "--label-column", default="label", metavar="NAME", help="column with the labels (label)"
    )
    group.add_argument("--id-column", metavar="NAME", help="column with your names of the samples")
    group.add_argument(
        "--ignore-column",
        action="append",
        default=[],
        metavar="NAME",
        help="leave a column out; can be given several times",
    )
    group.add_argument(
        "--image-column",
        metavar="NAME",
        help="column with images or their paths; found by itself where all values are such",
    )
    group.add_argument(
        "--image-size", metavar="HxW", help="resize images to 240x320, or 224 for 224x224"
    )
    group.add_argument(
        "--skip-unreadable",
        action="store_true",
        help="leave out images that cannot be read, and say which",
    )


def reading(options: argparse.Namespace) -> ReadOptions:
    """Return how files are read."""
    from fedsift.data.sources import ReadOptions, image_size  # noqa: PLC0415 - slow to import

    return ReadOptions(
        label_column=options.label_column,
        id_column=options.id_column,
        ignore_columns=tuple(options.ignore_column),
        image_column=options.image_column,
        image_size=None if options.image_size is None else image_size(options.image_size),
        skip_unreadable=options.skip_unreadable,
    )


def arguments(options: argparse.Namespace) -> list[str]:
    """Return these options as they are typed, for a process that is started with them."""
    given = [
        ("--label-column", options.label_column),
        ("--id-column", options.id_column),
        *(("--ignore-column", name) for name in options.ignore_column),
        ("--image-column", options.image_column),
        ("--image-size", options.image_size),
    ]
    # "=": a column's name may begin with a dash
    typed = [f"{option}={value}" for option, value in given if value is not None]
    return [*typed, "--skip-unreadable"] if options.skip_unreadable else typed
