"""Options of the commands that train on a user's own files: classes, encoder, keys."""

from __future__ import annotations

import argparse
from typing import Any

from fedsift.cli.reading import reading


def add_classes(parser: Any) -> None:
    """Add the option that names classes which the clean set may lack."""
    parser.add_argument(
        "--classes",
        type=lambda text: [name.strip() for name in text.split(",") if name.strip()],
        metavar="A,B,...",
        help="classes that the clean set may lack (default: those that occur)",
    )


def add_column_kinds(parser: Any) -> None:
    """Add the option that names the kind of a column."""
    parser.add_argument(
        "--column-kind",
        action="append",
        default=[],
        metavar="NAME=KIND",
        help="number, category, text or boolean, where it is guessed wrong; once per column",
    )


def add_encoder(parser: Any) -> None:
    """Add the option that names a frozen encoder; every site must give the same."""
    parser.add_argument(
        "--encoder",
        metavar="WHAT",
        help="train on the features of a frozen network: timm:NAME, transformers:NAME, "
        "module:function or a file.onnx; the same everywhere",
    )


def reading_keys(options: argparse.Namespace) -> dict[str, Any]:
    """Return how files are read as keys of a configuration, where it is not the default."""
    given, size = reading(options), options.image_size
    keys = {
        "label_column": given.label_column if given.label_column != "label" else None,
        "id_column": given.id_column,
        "ignore_columns": list(given.ignore_columns) or None,
        "image_column": given.image_column,
        "image_size": size,
        "skip_unreadable": given.skip_unreadable or None,
    }
    return {name: value for name, value in keys.items() if value is not None}
