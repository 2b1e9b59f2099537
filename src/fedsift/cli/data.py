"""``fedsift data``: its options."""

from __future__ import annotations

import argparse
from typing import Any

from fedsift.cli.listed import FORMATS
from fedsift.cli.reading import add_reading

EXAMPLES = """\
examples:
  fedsift data list                all datasets and where each would be read from
  fedsift data info mnist          its rows, columns and classes
  fedsift data prepare femnist     download it before a run needs it
  fedsift data info table.csv --label-column diagnosis --id-column patient
                                   what your own file would be read as
  fedsift data info scans/ --image-size 224 --skip-unreadable

Datasets of the Hugging Face hub are read from the folder FEDSIFT_DATA if that variable is set
(FEDSIFT_DATA/ylecun/mnist/train.parquet, ...); otherwise they are downloaded once into the hub's
own cache.

files that can be read:
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "data",
        description="List the built-in datasets, show what is in one or in your own file, or "
        "download a dataset.",
        epilog=EXAMPLES + _formats(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "action", choices=("list", "info", "prepare"), help="what to do; see the examples"
    )
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="a dataset; for info also a file or folder"
    )
    add_reading(parser)
    parser.set_defaults(handler=handle, error=parser.error)


def handle(options: argparse.Namespace) -> int:
    """List, describe or fetch."""
    from fedsift.cli import describing  # noqa: PLC0415 - slow to import

    return describing.handle(options)


def _formats() -> str:
    return "\n".join(f"  {name:<16} {text}" for name, text in FORMATS.items())
