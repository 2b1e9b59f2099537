"""``fedsift site``: the process that holds a site's data; its options."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedsift.cli.site_options import add_site_data

EXAMPLES = """\
examples:
  fedsift site --split digits.toml --folder sites     sites/0.npz ...: data for a trial
  fedsift site --folder site-0 --client 0 --data sites/0.npz
  fedsift site log --folder site-0                    every question, with its time and sizes
  fedsift site approve --folder site-0                runs that wait for the owner
  fedsift site approve RUN --folder site-0            say yes to one

`fedsift join` starts this process by itself; it is a command of its own so that it can run as
another user, or alone for a test.
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "site",
        description="Load a site's data and model once, and reply on a socket in the site's "
        "folder that only its owner can open.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "what",
        nargs="?",
        choices=("log", "approve"),
        help="log: show what was asked; approve: show the runs that wait, or say yes to one",
    )
    parser.add_argument("run", nargs="?", metavar="RUN", help="the run to approve")
    add_site_data(parser, required=False)
    parser.add_argument(
        "--split",
        type=Path,
        metavar="CONFIG.toml",
        help="write the data of every client of this configuration, and stop",
    )
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Serve until stopped."""
    from fedsift.cli import hosting  # noqa: PLC0415 - slow to import

    return hosting.handle(options)
