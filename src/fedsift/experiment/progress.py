"""The progress bar of a run: loss, accuracies, F1 of the weights, bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from fedsift.experiment.run import Observer

console = Console(stderr=True, highlight=False)


@contextmanager
def shown_progress(
    name: str, rounds: int, show: bool | None
) -> Iterator[tuple[Observer, Callable[[str], None]]]:
    """Show rounds and sentences if asked to; None: where stderr is a terminal or a notebook."""
    visible = console.is_terminal or console.is_jupyter
    if show is False or (show is None and not visible):
        yield lambda _: None, lambda _: None
        return
    with progress(name, rounds) as observe:
        yield observe, lambda sentence: console.print(sentence, markup=False)


@contextmanager
def progress(name: str, rounds: int) -> Iterator[Observer]:
    """Show a bar on stderr; where stderr is not a terminal, a plain line now and then."""
    if not (console.is_terminal or console.is_jupyter):
        yield _plain(name, rounds)
        return
    bar = Progress(  # where it is narrow, the bar and the time left go first
        TextColumn(f"{name:12} {{task.completed}}/{rounds}", style="bold"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
        console=console,
    )
    with bar:
        latest = _Figures()

        def observe(record: dict[str, Any]) -> None:
            if not bar.tasks:  # not before: bad input shows no bar
                bar.add_task(name, total=rounds, figures="")
            task = bar.tasks[0].id
            bar.update(task, completed=record["round"], figures=latest.text(record))
            for event in record["events"]:
                text = f"round {record['round']}: {event}"
                bar.console.print(text, style="yellow", markup=False)

        yield observe


def _plain(name: str, rounds: int) -> Observer:
    latest, every = _Figures(), max(1, rounds // 5)

    def observe(record: dict[str, Any]) -> None:
        text = latest.text(record)
        for event in record["events"]:
            print(f"{name} round {record['round']}: {event}", file=sys.stderr)
        if record["round"] % every == 0 or record["round"] == rounds:
            print(f"{name} {record['round']}/{rounds} {text}", file=sys.stderr, flush=True)

    return observe


class _Figures:
    """The latest figures of a run; some come only every few rounds."""

    def __init__(self) -> None:
        self._latest: dict[str, float] = {}
        self._bytes = 0

    def text(self, record: dict[str, Any]) -> str:
        keys = {
            "train_loss": "loss",
            "validation_accuracy": "validation",
            "test_accuracy": "test",
            "weights_f1": "F1 of weights",
        }
        for key in keys:
            if record.get(key) is not None:
                self._latest[key] = record[key]
        self._bytes += record["bytes_up"] + record["bytes_down"]
        shown = [f"{keys[k]} {v:{'.3f' if v < 1e3 else '.1e'}}" for k, v in self._latest.items()]
        return "  ".join([*shown, f"{self._bytes / 1e6:.1f} MB"])
