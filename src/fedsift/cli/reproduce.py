"""``fedsift reproduce``: the paper's experiments."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from fedsift.errors import InputError, RunError
from fedsift.experiment.config import parse_setting
from fedsift.experiment.paper_grid import FIGURES, SCALES, Job, data_for, plan
from fedsift.experiment.progress import progress
from fedsift.experiment.reproduce import progress_of, run_once
from fedsift.experiment.theory import write_theory
from fedsift.report.paper_figures import select, write_figure
from fedsift.report.paper_results import table
from fedsift.report.theory_figures import write_theory_figures

SHOWN = ("method", "rate", "accuracy", "F1 of weights", "MB up", "MB down", "exchanges")
EXAMPLES = """\
fig1    test accuracy against rounds: MNIST, CIFAR-10, FEMNIST; baselines and our methods
fig2    F1 of the wrong labels against rounds on MNIST at rates 1, 10, 100, 1000
fig3    the same on FEMNIST
theory  the errors of Theorems 1 and 2 on quadratics; how sparse Hessian products are

OUT/runs has a folder per run, OUT/results a small file per run, OUT the figures and a table. Runs
that are done are not made again; after an interruption the same command continues.

examples:
  fedsift reproduce fig1                         minutes; embedded digits without FEDSIFT_DATA
  fedsift reproduce fig1 --scale paper --list    what it would run, and what is done
  fedsift reproduce fig1 --scale paper --datasets mnist --splits iid --seeds 0,1
  fedsift reproduce fig2 --scale paper --methods iter-sketch --rates 10,100
  fedsift reproduce fig1 --draw results/reproduction --out docs/images
  fedsift reproduce theory
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "reproduce",
        description="Make the runs behind a figure of the paper, and draw it.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("figure", choices=(*FIGURES, "theory"), help="see below")
    parser.add_argument(
        "--scale",
        choices=tuple(SCALES),
        default="quick",
        help="quick: minutes; paper: the paper's sizes, hours (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for runs, results and figures (default: runs/reproduce-SCALE)",
    )
    names = {"metavar": "A,B", "type": _words}
    parser.add_argument("--datasets", **names, help="only these datasets")
    parser.add_argument("--splits", **names, help="only these of iid, non-iid")
    parser.add_argument("--methods", **names, help="these methods instead of the figure's own")
    numbers = {"metavar": "N,N", "type": _numbers}
    parser.add_argument("--rates", **numbers, help="only these of 1, 10, 100, 1000 (fig2, fig3)")
    parser.add_argument("--seeds", **numbers, help="these seeds (default: 0; paper: 0,1)")
    parser.add_argument(
        "--rounds", metavar="N", type=int, help="number of rounds, instead of the scale's"
    )
    parser.add_argument(
        "--paper-steps",
        action="store_true",
        help="the paper's own inner step 0.01 and batch 256 or 32",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any other key, for the methods that read it",
    )
    parser.add_argument("--list", action="store_true", help="print the runs and stop")
    parser.add_argument(
        "--draw", type=Path, metavar="DIR", help="run nothing: draw from this folder of results"
    )
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Run and draw, or one of them."""
    out = options.out or Path("runs") / f"reproduce-{options.scale}"
    if options.figure == "theory":
        return _theory(options, out)
    if options.draw is not None:
        return _draw(options.figure, options.draw, out)
    jobs = plan(
        options.figure,
        options.scale,
        datasets=options.datasets or (),
        splits=options.splits or (),
        methods=options.methods or (),
        rates=options.rates or (),
        seeds=options.seeds or (),
        rounds=options.rounds,
        paper_steps=options.paper_steps,
        settings=dict(parse_setting(text) for text in options.set),
    )
    states = [progress_of(job, out) for job in jobs]  # all are checked before the first one runs
    if not options.datasets and data_for(options.figure, options.scale) == ("digits",):
        print("The paper's datasets are not in FEDSIFT_DATA; the embedded digits are used instead.")
    if options.list:
        _list(jobs, [str(state) for state in states])
        return 0
    failed = _run(jobs, out)
    if failed is None:
        return 130
    code = _draw(options.figure, out / "results", out)
    return 1 if failed else code


def _run(jobs: Sequence[Job], out: Path) -> int | None:
    """Make the runs and return how many failed; None after an interruption."""
    failed = 0
    for number, job in enumerate(jobs, start=1):
        try:
            with progress(f"{number}/{len(jobs)} {job.name}", job.config.rounds) as observe:
                run_once(job, out, observe)
        except RunError as error:  # the others may still succeed
            failed += 1
            print(f"fedsift: {job.name}: {error}", file=sys.stderr)
        except KeyboardInterrupt:
            done = f"{number - 1} of {len(jobs)} runs are done"
            print(f"fedsift: interrupted; {done}, the same command continues", file=sys.stderr)
            return None
    return failed


def _draw(figure: str, results: Path, out: Path) -> int:
    paths = write_figure(figure, results, out)
    curves = select(figure, results)
    for place in dict.fromkeys((curve.dataset, curve.split) for curve in curves):
        titles, rows = table([c for c in curves if (c.dataset, c.split) == place])
        columns = [titles.index(name) for name in SHOWN]
        _print(SHOWN, [[row[i].strip("`") for i in columns] for row in rows], ", ".join(place))
    print("\n".join(str(path) for path in paths))
    return 0


def _theory(options: argparse.Namespace, out: Path) -> int:
    grid = ("datasets", "splits", "methods", "rates", "seeds", "rounds")
    given = (*grid, "paper_steps", "set", "list")
    if wrong := [name for name in given if getattr(options, name)]:
        raise InputError(f"theory has no runs to choose; leave out --{wrong[0].replace('_', '-')}")
    results = options.draw
    if results is None:
        results = out / "results"
        write_theory(results / "theory.json", options.scale)
    paths, rows = write_theory_figures(results / "theory.json", out)
    _print(*rows)
    print("\n".join(str(path) for path in paths))
    return 0


def _list(jobs: Sequence[Job], states: Sequence[str]) -> None:
    for job, state in zip(jobs, states, strict=True):
        print(f"{job.name:44} {job.config.rounds:4} rounds  {state}")
    print(f"{len(jobs)} runs, {states.count('done')} of them done")


def _print(titles: Sequence[str], rows: Sequence[Sequence[str]], name: str | None = None) -> None:
    shown = Table(title=name, title_justify="left", box=box.SIMPLE_HEAD)
    for number, title in enumerate(titles):
        shown.add_column(title, no_wrap=number == 0 and name is not None)
    for row in rows:
        shown.add_row(*row)
    Console(highlight=False, markup=False).print(shown)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text: str) -> list[int]:
    if not all(word.isdigit() for word in _words(text)):
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of whole numbers such as 0,1")
    return [int(word) for word in _words(text)]
