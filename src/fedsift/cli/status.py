"""``fedsift status``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedsift.cli.connection import add_server, add_switches, address

EXAMPLES = """\
examples:
  fedsift status --server 127.0.0.1:8000 --ca keys/ca.crt --folder server

At the server's machine: a proxy that lets only sites through does not let this through.
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "status",
        description="Show which sites are connected, since when, and how far the runs are.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_server(parser)
    parser.add_argument("--folder", type=Path, metavar="DIR", help="the server's folder, for runs")
    add_switches(parser)
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Print a line per site and per run."""
    where = address(options.server, options.ca, insecure=options.insecure)
    from fedsift.flower.status import status  # noqa: PLC0415 - slow to import

    for line in status(where, options.folder):
        print(line)
    return 0
