"""``fedsift join``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsift.cli.connection import add_server, add_switches, address
from fedsift.cli.option_file import add_option_file
from fedsift.cli.site_options import add_site_data, site_arguments, site_origin, site_policy
from fedsift.errors import InputError

if TYPE_CHECKING:
    from fedsift.flower.programs import Address

EXAMPLES = """\
examples:
  fedsift join --check --server fed.org:8000 --ca ca.crt --key site-0 --folder s --client 0 \\
      --data patients.csv --label-column diagnosis --id-column patient --name north
  fedsift join --server fed.org:8000 --ca ca.crt --key site-0 --folder s --client 0 --data d.npz
  fedsift join --server 127.0.0.1:8000 --insecure --folder site-0 --client 0 --data sites/0.npz
  fedsift join --config join.toml        all options from a file: server = "fed.org:8000" ...

After a review of RUN, train on what it corrected: --labels s/RUN/clients/north/corrected.parquet

What a server may ask is in the site's policy: `--policy show` prints it, `--policy FILE` replaces
it, `--approve` lets a run start only after its owner has said yes (`fedsift site approve`).

Labels and weights stay in --folder. When a run has ended, `fedsift audit FOLDER/RUN` lists the
labels that are probably wrong, and `fedsift review FOLDER/RUN --client N` shows them.
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "join",
        description="Take part in a federation: start a process that holds the site's data, and "
        "Flower's SuperNode, which connects to the server.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_option_file(parser)
    add_server(parser)
    parser.add_argument("--key", type=Path, metavar="FILE", help="this site's private key")
    add_site_data(parser, required=True)
    parser.add_argument(
        "--give-up",
        type=float,
        default=300.0,
        metavar="S",
        help="stop if the server has not accepted the site for S seconds (default: %(default)s)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="only try data, model, encoder, key, certificate and server, and say what is wrong",
    )
    add_switches(parser)
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Take part until stopped."""
    from fedsift.flower.deploy import SiteDeployment  # noqa: PLC0415 - slow to import

    server = address(options.server, options.ca, insecure=options.insecure)
    if server.ca is not None and options.key is None:
        raise InputError(
            "--key is missing; give the site's private key, made by `fedsift keys` at the server"
        )
    if options.key is not None and not options.key.exists():
        raise InputError(f"there is no file {options.key}; ask whoever runs the server for it")
    key = None if options.insecure else options.key
    if options.check:
        return _check(options, server, key)
    if options.policy is not None:
        site_policy(options)  # a file that is wrong is said now
    arguments = site_arguments(options)
    limits = options.give_up, options.verbose
    SiteDeployment(server, key, options.folder, arguments, *limits).run()
    return 0


def _check(options: argparse.Namespace, server: Address, key: Path | None) -> int:
    from fedsift.flower.check import SiteCheck  # noqa: PLC0415 - slow to import

    wrong = 0
    for checked in SiteCheck(server, key, options.folder, site_origin(options)).run():
        wrong += bool(checked.problem)
        state = "wrong" if checked.problem else "ok"
        print(f"{checked.name:12} {state:6} {checked.problem or checked.found}", flush=True)
    return 2 if wrong else 0
