"""``fedsift keys``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedsift.errors import InputError

EXAMPLES = """\
examples:
  fedsift keys --out keys --sites 3                        for three sites on this machine
  fedsift keys --out keys --sites 3 --host fed.example.org
  fedsift keys --out keys --sites 4                        one more site; the others stay
  fedsift keys --site north                                at a site: north stays, north.pub travels
  fedsift keys --out keys --renew                          a new certificate, before the old ends

Give a site ca.crt and its own sites/site-N, over a channel you trust; sites/site-N.pub stays at the
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
    parser.add_argument(
        "--out", type=Path, default=Path("keys"), metavar="DIR", help="folder of the keys"
    )
    parser.add_argument(
        "--sites", type=int, default=0, metavar="N", help="keys for site-0 to site-(N-1)"
    )
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="the server's name or IP address; may be repeated",
    )
    parser.add_argument(
        "--site",
        type=Path,
        metavar="FILE",
        help="at a site: make its key pair; FILE stays there, FILE.pub goes to keys/sites at the "
        "server",
    )
    parser.add_argument(
        "--renew", action="store_true", help="a new certificate of the server, by the same CA"
    )
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Write the keys that are missing."""
    from fedsift.flower.deploy import check_installed, site_names  # noqa: PLC0415

    check_installed()
    if options.sites < 0:
        raise InputError(f"--sites is {options.sites}; give a number of at least 0")
    from fedsift.flower.keys import make_keys, make_site_key, renew  # noqa: PLC0415

    if options.site is not None:
        private, public = make_site_key(options.site)
        print(f"{private}: stays here\n{public}: send it to whoever runs the server")
        return 0
    if options.renew:
        print(*renew(options.out), sep="\n")
        return 0
    for path in make_keys(options.out, site_names(options.sites), options.host):
        print(path)
    return 0
