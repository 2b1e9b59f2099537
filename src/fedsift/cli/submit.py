"""``fedsift submit``: its options."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedsift.cli.connection import add_server, add_switches

EXAMPLES = """\
examples:
  fedsift submit digits.toml --server 127.0.0.1:8000 --ca keys/ca.crt --out runs/digits
  fedsift submit digits.toml --server 127.0.0.1:8000 --ca keys/ca.crt --out runs/digits --resume

The key `clients` says how many sites to wait for. Without the key `method` the server chooses one
by the model and says which. The run goes on at the server if this command is
interrupted. The weights of the samples stay at the sites.
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "submit",
        description="Start a run on a real federation, show its progress and fetch its run folder.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", type=Path, metavar="CONFIG.toml", help="keys to change, in TOML")
    add_server(parser)
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="any key; may be repeated"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="run folder")
    parser.add_argument("--resume", action="store_true", help="continue the run of this folder")
    shown = " (default: %(default)s)"
    parser.add_argument(
        "--timeout",
        type=float,
        default=600.0,
        metavar="S",
        help="seconds to wait for a reply" + shown,
    )
    parser.add_argument(
        "--wait",
        type=float,
        default=300.0,
        metavar="S",
        help="seconds to wait for the sites to connect" + shown,
    )
    parser.add_argument(
        "--solve",
        action="store_true",
        help="solve the problem of the server's owner (`fedsift server --problem`); the keys are "
        "those of fs.solve, and clients",
    )
    add_switches(parser)
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Start a run and follow it."""
    from fedsift.cli import submitting  # noqa: PLC0415 - slow to import

    return submitting.handle(options)
