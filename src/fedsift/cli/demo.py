"""``fedsift demo``: the default beside three others on the embedded digits, about a minute."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from fedsift.cli.table import print_table
from fedsift.experiment.config import Config
from fedsift.experiment.progress import progress
from fedsift.experiment.run import execute, read_config
from fedsift.experiment.run_folder import RunFolder
from fedsift.report import write_report

METHODS = ("fedavg", "clean-only", "auto", "oracle")
ROUNDS = 150
EXAMPLES = """\
examples:
  fedsift demo
  fedsift demo --out /tmp/demo --seed 1
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "demo",
        description="Train on 10 sites with 40 % wrong labels, in about a minute on two cores: the "
        "default method\n(auto) beside FedAvg on all labels, FedAvg on the right labels only "
        "(oracle) and the clean\nimages alone (clean-only). The data are scikit-learn's digits; "
        "nothing is downloaded.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    shown = " (default: %(default)s)"
    parser.add_argument(
        "--out", type=Path, default=Path("runs/demo"), metavar="DIR", help="run folders" + shown
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed" + shown)
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help="rounds" + shown)
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Run the methods, print a table, write a report."""
    run = Config.of(rounds=options.rounds, seed=options.seed)
    print("10 sites with 100 images each; 40 % of the labels are wrong; 200 clean images help.")
    folders, summaries = [], []
    for method in METHODS:
        config = run.replace(method=method)
        folder = options.out / method
        if _is_demo(folder, config):
            shutil.rmtree(folder)  # start anew
        with progress(method, config.rounds) as observe:
            summaries.append(execute(config, folder, observe=observe).summary)
        folders.append(folder)
    report = write_report(folders, options.out / "report.html")
    print_table(summaries)
    print(f"report: {report}")
    return 0


def _is_demo(folder: Path, config: Config) -> bool:
    """Return whether an earlier demo made this folder, and not the user."""
    if not (folder / "config.toml").exists():
        return False
    old = read_config(folder)
    chosen = RunFolder(folder).read_choice(old)
    method = config.method if chosen is None or chosen.by != config.method else chosen.method
    return old == config.replace(method=method, rounds=old.rounds, seed=old.seed).resolve()
