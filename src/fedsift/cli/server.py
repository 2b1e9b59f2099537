"""``fedsift server``."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsift.cli.connection import add_switches, address
from fedsift.cli.option_file import add_option_file
from fedsift.cli.own import add_classes, add_column_kinds, add_encoder
from fedsift.cli.reading import add_reading, reading
from fedsift.errors import InputError
from fedsift.files import absolute

if TYPE_CHECKING:
    from fedsift.flower.programs import Address

EXAMPLES = r"""\
examples:
  fedsift server --keys keys --folder server                   this machine only, port 8000
  fedsift server --keys keys --folder server --host 0.0.0.0 --validation clean.csv \
      --label-column diagnosis --id-column patient
  fedsift server --insecure --folder server                    no TLS, loopback only
  fedsift server --config server.toml                          all options from a file

Anyone who can reach the port can start runs: read docs/guide/deploy.md before you
listen beyond loopback.
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "server",
        description="Run a federation's server: Flower's SuperLink with TLS, authentication of the "
        "sites and a database.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    shown = " (default: %(default)s)"
    add_option_file(parser)
    parser.add_argument(
        "--folder", type=Path, required=True, metavar="DIR", help="the server's own folder"
    )
    parser.add_argument("--keys", type=Path, metavar="DIR", help="folder made by `fedsift keys`")
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="IP", help="address to listen on" + shown
    )
    parser.add_argument(
        "--port", type=int, default=8000, metavar="N", help="port to listen on" + shown
    )
    what = "a file, a folder, or module:function"
    parser.add_argument("--validation", metavar="WHAT", help=f"clean samples: {what}")
    parser.add_argument("--test", metavar="WHAT", help="test samples (default: none)")
    add_reading(parser)
    add_column_kinds(parser)
    add_classes(parser)
    parser.add_argument("--model", metavar="WHAT", help="a model's name, or module:function")
    add_encoder(parser)
    parser.add_argument(
        "--problem",
        metavar="WHAT",
        help="solve a bilevel problem of your own: module:function, called with --validation",
    )
    parser.add_argument(
        "--revoke", metavar="NAME", help="refuse this site from now on, and stop; see `status`"
    )
    add_switches(parser)
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Serve until stopped."""
    from fedsift.flower.deploy import ServerDeployment  # noqa: PLC0415 - slow to import

    if options.keys is None and not options.insecure:
        raise InputError("--keys is missing; give the folder that `fedsift keys` made, for TLS")
    keys = None if options.keys is None else options.keys.absolute()
    ca = None if keys is None else keys / "ca.crt"
    listen = address(f"{options.host}:{options.port}", ca, insecure=options.insecure)
    if options.revoke is not None:
        return _revoke(listen, keys, options.revoke)
    own = {name: getattr(options, name) for name in ("model", "encoder", "classes")}
    own |= {
        name: path and absolute(path)
        for name in ("validation", "test")
        if (path := getattr(options, name)) is not None
    }
    own["column_kinds"] = options.column_kind
    if options.problem is not None:
        own["problem"] = options.problem
        _check_problem(options.problem, own.get("validation", ""))
    elif options.validation is not None:
        own["reading"] = asdict(reading(options))
        _check_data(options)
    ServerDeployment(listen, options.folder, keys, own, options.verbose).run()
    return 0


def _revoke(where: Address, keys: Path | None, name: str) -> int:
    from fedsift.flower.status import revoke  # noqa: PLC0415 - slow to import

    if keys is None:
        raise InputError("--keys is missing; without TLS there are no keys to revoke")
    revoke(where, keys, name)
    print(f"{name} is refused from now on")
    return 0


def _check_problem(reference: str, text: str) -> None:
    """Load the server's problem before anyone waits for it."""
    from fedsift.problem.own_problem import load_problem  # noqa: PLC0415 - slow to import

    sys.path.insert(0, str(Path.cwd()))  # for module:function
    start = load_problem(reference, text).start()
    print(f"problem {reference}: y has {len(start.y)} numbers", flush=True)


def _check_data(options: argparse.Namespace) -> None:
    """Read the clean set before anyone waits for it, and say what it cannot tell."""
    from fedsift.data.clean_set import check_clean_set  # noqa: PLC0415 - slow to import
    from fedsift.data.sources import read  # noqa: PLC0415
    from fedsift.experiment.config import Config  # noqa: PLC0415
    from fedsift.experiment.own_data import load_server  # noqa: PLC0415

    sys.path.insert(0, str(Path.cwd()))  # for module:function
    given = {"classes": options.classes or [], "column_kinds": options.column_kind}
    config = Config.of(dataset="own", encoder=options.encoder or "", **given)
    read_as = reading(options)
    clean = read(options.validation, read_as)
    test = None if options.test is None else read(options.test, read_as)
    data, schema = load_server(config, clean, test)
    found = check_clean_set(*data.validation, data.class_names)
    print(f"clean set: {found.samples} samples of {data.classes} classes", flush=True)
    for note in (*clean.notes, *schema.notes, *found.notes):
        print(f"note: {note}", flush=True)
