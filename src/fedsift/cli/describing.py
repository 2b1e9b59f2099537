"""What ``fedsift data`` does; a module of its own, since its imports take seconds."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from fedsift.cli.reading import reading
from fedsift.data import DATASETS, available, info, load, lookup
from fedsift.data.sources import describe, is_readable, read


def handle(options: argparse.Namespace) -> int:
    """List, describe or fetch."""
    if options.action == "list":
        _list()
    elif options.name is None:
        also = " or a file" if options.action == "info" else ""
        options.error(f"{options.action} needs the name of a dataset{also}")
    elif options.action == "info" and _is_file(options.name):
        _info_of_file(options)
    elif options.action == "info":
        _info(options.name)
    else:
        for split in lookup(options.name).splits:
            print(f"{options.name} {split}: {len(load(options.name, split))} samples are ready")
    return 0


def _list() -> None:
    table = Table("name", "classes", "shape", box=box.SIMPLE_HEAD, expand=True)
    table.add_column("description", ratio=1, overflow="fold")
    table.add_column("where", ratio=2, overflow="fold")
    for row in available():
        shape = "x".join(str(n) for n in row.shape)
        where = row.where if row.where == "embedded" else f"{row.where}: {row.location}"
        table.add_row(row.name, str(row.classes), shape, row.description, where)
    Console(highlight=False, markup=False).print(table)


def _is_file(name: str) -> bool:
    return name not in DATASETS and is_readable(name)


def _info_of_file(options: argparse.Namespace) -> None:
    sys.path.insert(0, str(Path.cwd()))  # for module:function
    lines = describe(read(options.name, reading(options)))
    print(options.name)
    width = max(len(title) for title, _ in lines)
    for title, text in lines:
        print(f"  {title:<{width}}  {text}")


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
