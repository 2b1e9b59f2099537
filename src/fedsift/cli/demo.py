"""``fedsift demo``: the main job on the embedded digits, about a minute on two cores."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from fedsift.cli.progress import progress
from fedsift.cli.table import print_table
from fedsift.experiment.config import Config
from fedsift.experiment.run import execute
from fedsift.report import write_report

METHODS = ("fedavg", "iter-sketch", "oracle")
ROUNDS = 200
EXAMPLES = """\
examples:
  fedsift demo
  fedsift demo --out /tmp/demo --seed 1
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    text = "see it work: 10 sites, 40 % wrong labels, three methods side by side"
    parser = commands.add_parser(
        "demo",
        help=text,
        description=text.capitalize() + ". Uses scikit-learn's digits; needs no download.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="folder of the runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Run the methods, print a table, write a report."""
    print("10 sites with 100 images each; 40 % of the labels are wrong; 200 clean images help.")
    folders, summaries = [], []
    for method in METHODS:
        config = Config(
            method=method, rounds=options.rounds, seed=options.seed, checkpoint_every=options.rounds
        )
        folder = options.out / method
        shutil.rmtree(folder, ignore_errors=True)  # a demo's own folder: start anew
        with progress(method, config.rounds) as observe:
            summaries.append(execute(config, folder, observe=observe))
        folders.append(folder)
    report = write_report(folders, options.out / "report.html")
    print_table(summaries)
    print(f"report: {report}")
    return 0
