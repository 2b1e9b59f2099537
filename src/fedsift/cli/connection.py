"""What ``server``, ``join`` and ``submit`` have in common: the server's address and its CA."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedsift.flower.programs import Address


def add_server(parser: argparse.ArgumentParser) -> None:
    """Add the server's address and the CA of its certificate."""
    parser.add_argument("--server", required=True, metavar="HOST:PORT", help="the server's address")
    parser.add_argument("--ca", type=Path, metavar="FILE", help="certificate of the server's CA")


def add_switches(parser: argparse.ArgumentParser) -> None:
    """Add the switches of every command that runs Flower's programs."""
    parser.add_argument("--insecure", action="store_true", help="without TLS; loopback only")
    parser.add_argument("--verbose", action="store_true", help="show the commands that are run")


def address(where: str, ca: Path | None, *, insecure: bool) -> Address:
    """Return the server's address; refuse one without TLS beyond loopback."""
    from fedsift.flower.deploy import check_installed  # noqa: PLC0415 - slow to import
    from fedsift.flower.programs import Address, spare_loopback  # noqa: PLC0415

    check_installed()
    spare_loopback()
    return Address.parse(where, ca, insecure=insecure)
