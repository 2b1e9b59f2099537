"""``fedsift report``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

EXAMPLES = """\
examples:
  fedsift report runs/mnist-auto-0
  fedsift report runs/mnist-* --out mnist.html
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "report",
        description="Draw figures and tables from run folders into one HTML file.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folder")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("report.html"),
        metavar="FILE",
        help="the file to write (default: %(default)s)",
    )
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Write the report."""
    from fedsift.report import write_report  # noqa: PLC0415 - slow to import

    print(write_report(options.runs, options.out))
    return 0
