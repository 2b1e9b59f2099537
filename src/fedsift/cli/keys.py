"""``fedsift keys``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

EXAMPLES = """\
examples:
  fedsift keys --out keys --nodes 3                        for three sites on this machine
  fedsift keys --out keys --nodes 3 --host fed.example.org
  fedsift keys --out keys --nodes 4                        one site more; the others stay

Give a site ca.crt and its own nodes/site-N, over a channel you trust; nodes/site-N.pub stays at the
server. This is a development CA: for production put your own files under the same names.
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "keys",
        description="Make a development CA, the server's certificate and a key pair per site.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("keys"), metavar="DIR", help="folder")
    parser.add_argument("--nodes", type=int, default=0, metavar="N", help="sites 0 to N-1")
    parser.add_argument(
        "--host", action="append", default=[], metavar="NAME", help="server's name or IP address"
    )
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Write the keys that are missing."""
    from fedsift.flower.deploy import check_installed, names  # noqa: PLC0415

    check_installed()
    from fedsift.flower.keys import make_keys  # noqa: PLC0415

    for path in make_keys(options.out, names(options.nodes), options.host):
        print(path)
    return 0
