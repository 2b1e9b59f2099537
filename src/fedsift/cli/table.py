"""Summaries side by side, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table


def print_table(summaries: Sequence[dict[str, Any]]) -> None:
    """Print one row per run."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("method")
    for title in ("accuracy", "best", "F1", "precision", "recall", "AUC", "MB up", "MB down"):
        table.add_column(title, justify="right")
    table.add_column("exchanges", justify="right")
    table.add_column("seconds", justify="right")
    for s in summaries:
        shares = [s[k] for k in ("test_accuracy", "best_test_accuracy")]
        scores = [s[k] for k in ("f1", "precision", "recall", "auc")]
        table.add_row(
            s["method"],
            *(_number(v, 3) for v in [*shares, *scores]),
            *(f"{s[k] / 1e6:.1f}" for k in ("bytes_up", "bytes_down")),
            str(s["exchanges"]),
            f"{s['seconds']:.0f}",
        )
    Console(width=110, highlight=False).print(table)


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
