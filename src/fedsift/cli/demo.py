"""``fedsift demo``: the default beside three others on the embedded digits, about a minute."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

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
    from fedsift.cli import demonstrating  # noqa: PLC0415 - slow to import

    return demonstrating.handle(options)
