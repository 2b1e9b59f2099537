"""What ``fedsift demo`` does; a module of its own, since its imports take seconds."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from fedsift.cli.demo import METHODS
from fedsift.cli.table import print_table
from fedsift.experiment.config import Config
from fedsift.experiment.progress import progress
from fedsift.experiment.run import execute, read_config
from fedsift.experiment.run_folder import RunFolder
from fedsift.report import write_report


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
