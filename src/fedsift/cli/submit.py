"""``fedsift submit``."""

from __future__ import annotations

import argparse
import json
import re
import secrets
from pathlib import Path
from typing import Any

from fedsift.cli.connection import add_server, add_switches, address
from fedsift.cli.table import print_table
from fedsift.errors import InputError
from fedsift.experiment.config import flatten, from_mapping, parse_setting, read_toml
from fedsift.experiment.progress import progress
from fedsift.files import write_text
from fedsift.report import write_report

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
    add_switches(parser)
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Start a run and follow it."""
    from fedsift.flower.run_keys import RunKeys  # noqa: PLC0415 - of the extra
    from fedsift.flower.submission import Submission  # noqa: PLC0415

    server = address(options.server, options.ca, insecure=options.insecure)
    given = flatten(read_toml(options.config)) | dict(parse_setting(text) for text in options.set)
    config = from_mapping(given, str(options.config))
    out = options.out or Path("runs") / f"{config.dataset}-{config.method}-{config.seed}"
    name, seconds = _name(out, resume=options.resume), (options.timeout, options.wait)
    keys = RunKeys(config.to_toml(), name, options.resume, *seconds)
    with progress(config.method, config.rounds) as observe:
        Submission(server, keys, out, options.verbose).follow(observe)
    report = write_report([out], out / "report.html")
    print_table([json.loads((out / "summary.json").read_text(encoding="utf-8"))])
    print(f"run folder: {out} (run {name})\nreport:     {report}")
    return 0


def _name(out: Path, *, resume: bool) -> str:
    """Return the run's name at the server and the sites; it is kept in the folder."""
    note = out / "run.txt"
    if resume and not note.exists():
        raise InputError(f"{out} holds no submitted run to resume; leave out --resume")
    if not resume and (note.exists() or (out / "config.toml").exists()):
        raise InputError(f"{out} already holds a run; add --resume or choose another --out")
    if not resume:
        safe = re.sub(r"[^A-Za-z0-9]+", "-", out.name).strip("-")
        write_text(note, f"{safe[:60] or 'run'}-{secrets.token_hex(4)}")
    return note.read_text(encoding="utf-8").strip()
