"""What ``fedsift reproduce`` does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from rich import box
from rich.console import Console
from rich.table import Table

from fedsift.cli import background
from fedsift.errors import InputError, RunError
from fedsift.experiment.config import parse_setting
from fedsift.experiment.paper_grid import TERMS, Choice, Job, data_for, plan
from fedsift.experiment.progress import progress
from fedsift.experiment.queue import ordered, work
from fedsift.experiment.queue_status import duration, status, summary
from fedsift.experiment.reproduce import complete, progress_of, sized
from fedsift.experiment.theory import PARTS, write_theory
from fedsift.files import owner
from fedsift.report.paper_figures import select, write_figure
from fedsift.report.paper_results import table
from fedsift.report.theory_figures import write_theory_figures

SHOWN = ("method", "rate", "accuracy", "accuracy if stopped", "F1 of weights", "MB up", "MB down")
GRID = (
    *("datasets", "splits", "methods", "rates", "seeds"),
    *("terms", "iterations", "rounds", "preset"),
)
ONLY_RUNS = (*GRID, "set", "status", "background", "no_draw")


def handle(options: argparse.Namespace) -> int:
    """Run and draw, or one of them."""
    out = options.out or Path("runs") / f"reproduce-{options.scale}"
    if options.figure == "theory":
        return _theory(options, out)
    if options.part:
        raise InputError(f"{options.figure} has no parts; leave out --part")
    if options.draw is not None:
        return _draw(options.figure, options.draw, out)
    if options.jobs < 1:
        raise InputError(f"--jobs is {options.jobs}; give at least 1")
    jobs = ordered(plan(options.figure, options.scale, _choice(options)))
    for job in jobs:  # all are checked before the first one runs
        progress_of(sized(job, out), out)
    if not options.datasets and data_for(options.figure, options.scale) == ("digits",):
        print("The paper's datasets are not in FEDSIFT_DATA; the embedded digits are used instead.")
    if options.status:
        return _status(jobs, out)
    if options.background:
        pid = background.start(options.given, out)
        print(f"process {pid} works in the background; it prints into {background.log_of(out)}")
        return 0
    with background.being(options.in_background, out):
        return _work(options, jobs, out)


def _choice(options: argparse.Namespace) -> Choice:
    return Choice(
        **{name: getattr(options, name) for name in GRID},
        settings=dict(parse_setting(text) for text in options.set),
    )


def _work(options: argparse.Namespace, jobs: Sequence[Job], out: Path) -> int:
    if options.jobs > 1:
        torch.set_num_threads(1)
    with background.helpers(options.jobs - 1, options.given):
        failed = _run(jobs, out)
    if failed is None:
        return 130
    if options.no_draw:
        return 1 if failed else 0
    code = _draw(options.figure, out / "results", out)
    return 1 if failed else code


def _run(jobs: Sequence[Job], out: Path) -> int | None:
    """Make the runs and return how many failed; None after an interruption."""
    done = 0

    def make(job: Job, number: int) -> None:
        nonlocal done
        rounds = sized(job, out).config.rounds
        with progress(f"{number}/{len(jobs)} {job.name}", rounds) as observe:
            complete(job, out, observe)
        done += 1

    def failed(job: Job, error: RunError) -> None:
        print(f"fedsift: {job.name}: {error}", file=sys.stderr)

    try:
        return work(jobs, out, make, failed)
    except KeyboardInterrupt:
        said = f"{done} of {len(jobs)} runs are done, the same command continues"
        print(f"fedsift: interrupted; {said}", file=sys.stderr)
        return None


def _status(jobs: Sequence[Job], out: Path) -> int:
    rows = status(jobs, out)
    for row in rows:
        pace = "" if row.seconds is None else f"{row.seconds:6.2f} s a round"
        left = f", {duration(row.left)} left" if row.left else ""
        done = f"{row.progress.rounds:4} of {row.progress.of}"
        print(f"{row.job.name:44} {row.state:8} {done:11} {pace}{left}")
    print(summary(rows))
    if (pid := owner(background.pid_of(out))) is not None:
        print(f"process {pid} works in the background; it prints into {background.log_of(out)}")
    return 0


def _draw(figure: str, results: Path, out: Path) -> int:
    paths = []
    for terms in TERMS:
        curves = select(figure, results, terms)
        if not curves:
            continue
        paths += write_figure(figure, results, out, terms)
        for place in dict.fromkeys((curve.dataset, curve.split) for curve in curves):
            titles, rows = table([c for c in curves if (c.dataset, c.split) == place])
            columns = [titles.index(name) for name in SHOWN]
            cells = [[row[i].strip("`") for i in columns] for row in rows]
            _print(SHOWN, cells, ", ".join([*place, terms]))
    if not paths:
        raise InputError(
            f"{results} has no results for {figure}; `fedsift reproduce {figure}` makes some"
        )
    print("\n".join(str(path) for path in paths))
    return 0


def _theory(options: argparse.Namespace, out: Path) -> int:
    if wrong := [name for name in ONLY_RUNS if getattr(options, name)]:
        raise InputError(f"theory has no runs to choose; leave out --{wrong[0].replace('_', '-')}")
    results, parts = options.draw, tuple(dict.fromkeys(options.part or PARTS))
    if results is None:
        results = out / "results"
        write_theory(results, options.scale, parts)
    paths, rows = write_theory_figures(results, out, parts)
    _print(*rows)
    print("\n".join(str(path) for path in paths))
    return 0


def _print(titles: Sequence[str], rows: Sequence[Sequence[str]], name: str | None = None) -> None:
    shown = Table(title=name, title_justify="left", box=box.SIMPLE_HEAD)
    for number, title in enumerate(titles):
        shown.add_column(title, no_wrap=number == 0 and name is not None)
    for row in rows:
        shown.add_row(*row)
    Console(highlight=False, markup=False).print(shown)
