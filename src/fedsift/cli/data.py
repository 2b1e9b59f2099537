"""``fedsift data``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from fedsift.data import available, info, load, lookup

EXAMPLES = """\
examples:
  fedsift data list                all datasets and where each would be read from
  fedsift data info mnist          its rows, columns and classes
  fedsift data prepare femnist     download it before a run needs it

Datasets of the Hugging Face hub are read from the folder FEDSIFT_DATA if that variable is set
(FEDSIFT_DATA/ylecun/mnist/train.parquet, ...); otherwise they are downloaded once into the hub's
own cache.
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "data",
        description="List the built-in datasets, show what is in one, or download it.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "action", choices=("list", "info", "prepare"), help="what to do; see the examples"
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="a dataset; for info and prepare")
    parser.set_defaults(handler=handle, error=parser.error)


def handle(options: argparse.Namespace) -> int:
    """List, describe or fetch."""
    if options.action == "list":
        _list()
    elif options.name is None:
        options.error(f"{options.action} needs the name of a dataset")
    elif options.action == "info":
        _info(options.name)
    else:
        for split in lookup(options.name).splits:
            print(f"{options.name} {split}: {len(load(options.name, split))} samples are ready")
    return 0


def _list() -> None:
    table = Table("name", "classes", "shape", box=box.SIMPLE_HEAD)
    table.add_column("description", ratio=2)
    table.add_column("where", ratio=3, overflow="fold")
    for row in available():
        shape = "x".join(str(n) for n in row.shape)
        where = row.where if row.where == "embedded" else f"{row.where}: {row.location}"
        table.add_row(row.name, str(row.classes), shape, row.description, where)
    Console(highlight=False, markup=False).print(table)


def _info(name: str) -> None:
    for split in info(name):
        print(f"{name} {split.split}: {split.rows} samples")
        for file in split.files:
            print(f"  file     {Path(file)}")
        for column, kind in split.columns.items():
            print(f"  column   {column}: {kind}")
        if split.writers is not None:
            print(f"  writers  {split.writers}")
        print("  labels   " + ", ".join(f"{k}: {n}" for k, n in split.labels.items()))
