"""Summaries side by side, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

ROWS = (  # title, key of summary.json, scale, format
    ("test accuracy", "test_accuracy", 1.0, ".3f"),
    ("best of all rounds", "best_test_accuracy", 1.0, ".3f"),
    ("clean set, fitted", "validation_accuracy", 1.0, ".3f"),
    ("clean set, held out", "judged_accuracy", 1.0, ".3f"),
    ("wrong labels: F1", "f1", 1.0, ".3f"),
    ("precision", "precision", 1.0, ".3f"),
    ("recall", "recall", 1.0, ".3f"),
    ("AUC", "auc", 1.0, ".3f"),
    ("privacy: epsilon", "epsilon", 1.0, ".3g"),
    ("MB up", "bytes_up", 1e-6, ".1f"),
    ("MB down", "bytes_down", 1e-6, ".1f"),
    ("exchanges", "exchanges", 1.0, ".0f"),
    ("seconds", "seconds", 1.0, ".0f"),
)


def print_table(summaries: Sequence[dict[str, Any]]) -> None:
    """Print a column per run: few runs with many figures then fit any terminal."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    for summary in summaries:
        table.add_column(_title(summary), justify="right")
    for title, key, scale, form in ROWS:
        values = [summary.get(key) for summary in summaries]
        if any(value is not None for value in values):
            table.add_row(title, *("–" if v is None else format(scale * v, form) for v in values))
    Console(highlight=False).print(table)


def _title(summary: dict[str, Any]) -> str:
    """Return the method; on two lines where another one chose it."""
    by = summary.get("chosen", {}).get("by")
    return f"{by}:\n{summary['method']}" if by else str(summary["method"])
