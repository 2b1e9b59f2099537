"""What ``fedsift submit`` does; a module of its own, since its imports take seconds."""

from __future__ import annotations

import argparse
import json
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from fedsift.cli.connection import address
from fedsift.cli.table import print_table
from fedsift.errors import InputError
from fedsift.experiment.config import flatten, from_mapping, parse_setting
from fedsift.experiment.progress import progress
from fedsift.experiment.solve_remote import SOLVE, Submitted
from fedsift.files import read_toml, write_text
from fedsift.report import write_report

if TYPE_CHECKING:
    from fedsift.flower.programs import Address


def handle(options: argparse.Namespace) -> int:
    """Start a run and follow it."""
    from fedsift.flower.run_keys import RunKeys  # noqa: PLC0415 - of the extra
    from fedsift.flower.submission import Submission  # noqa: PLC0415

    server = address(options.server, options.ca, insecure=options.insecure)
    given = flatten(read_toml(options.config)) | dict(parse_setting(text) for text in options.set)
    if options.solve:
        return _solve(options, server, given)
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


def _solve(options: argparse.Namespace, server: Address, given: dict[str, Any]) -> int:
    """Solve the server's own problem; the folder has no report, since it is about labels."""
    from fedsift.flower.run_keys import RunKeys  # noqa: PLC0415 - of the extra
    from fedsift.flower.submission import Submission  # noqa: PLC0415

    asked = Submitted.of(given).asked
    out = options.out or Path("runs") / f"{options.config.stem}-{asked.name}-{asked.keys.seed}"
    name, seconds = _name(out, resume=options.resume), (options.timeout, options.wait)
    keys = RunKeys(tomli_w.dumps({SOLVE: given}), name, options.resume, *seconds)
    with progress(asked.name, asked.keys.rounds) as observe:
        Submission(server, keys, out, options.verbose).follow(observe)
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    print(f"{summary['stopped']}\nrun folder: {out} (run {name})")
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
