"""``fedsift run``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from fedsift.algorithms.registry import METHODS
from fedsift.cli.progress import progress
from fedsift.cli.table import print_table
from fedsift.data import DATASETS
from fedsift.experiment.common_keys import RunKeys
from fedsift.experiment.config import (
    Config,
    change,
    flatten,
    from_file,
    from_mapping,
    method_keys,
    parse_setting,
    read_toml,
)
from fedsift.experiment.run import execute, read_config
from fedsift.report import write_report

EXAMPLES = """\
methods:
{methods}

examples:
  fedsift run                                  single-loop on the embedded digits
  fedsift run --dataset mnist --method iter-topk --set rate=100 --out runs/topk
  fedsift run --out runs/topk --resume         continue after a crash
  fedsift run --out runs/topk --resume --set rounds=200
  fedsift run --keys iter-topk                 every key of a method, its default and meaning
  fedsift run --keys > experiment.toml         the keys of single-loop, as a file to edit
  fedsift run experiment.toml --set seed=1
"""
HERE = "command line"


def add(commands: Any) -> None:
    """Add the command to the parser."""
    methods = "\n".join(f"  {name:13}{method.text}" for name, method in METHODS.items())
    parser = commands.add_parser(
        "run",
        description="Train with one method and write a run folder.",
        epilog=EXAMPLES.format(methods=methods),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "config", nargs="?", type=Path, metavar="CONFIG.toml", help="keys to change, in TOML"
    )
    parser.add_argument("--dataset", metavar="NAME", help=", ".join(DATASETS))
    parser.add_argument("--method", metavar="NAME", help="see below")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any key that --keys shows; may be repeated",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="run folder (default: runs/DATASET-METHOD-SEED)"
    )
    parser.add_argument(
        "--labels", metavar="PATH", help="train on corrected labels, from `fedsift review`"
    )
    parser.add_argument("--resume", action="store_true", help="continue the run in the folder")
    parser.add_argument(
        "--keys",
        nargs="?",
        const="",
        metavar="METHOD",
        help="print the keys that a method reads, as TOML, and stop (default: that of --method)",
    )
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Do one run."""
    if options.keys is not None:
        print(keys_text(options.keys or options.method or RunKeys.method), end="")
        return 0
    config, out = configuration(options)
    with progress(config.method, config.rounds) as observe:
        finished = execute(config, out, resume=options.resume, observe=observe)
    report = write_report([out], out / "report.html")
    print_table([finished.summary])
    print(f"run folder: {out}\nreport:     {report}")
    return 0


def configuration(options: argparse.Namespace) -> tuple[Config, Path]:
    """Combine the file, the options and ``--set``, the later overriding, and find the run folder.

    A run that is resumed starts from its own configuration.
    """
    named = {"dataset": options.dataset, "method": options.method, "labels": options.labels}
    given = {key: value for key, value in named.items() if value is not None}
    given |= dict(parse_setting(text) for text in options.set)
    out = options.out
    if out is None:
        config = _new(options.config, given)
        out = Path("runs") / f"{config.dataset}-{config.method}-{config.seed}"
    if options.resume and (out / "config.toml").exists():
        in_file = {} if options.config is None else flatten(read_toml(options.config))
        return change(read_config(out), {**in_file, **given}, HERE), out
    return _new(options.config, given), out


def _new(path: Path | None, given: Mapping[str, Any]) -> Config:
    return from_mapping(given, HERE) if path is None else from_file(path, given, HERE)


def keys_text(method: str) -> str:
    """Return the common keys and those of a method with their defaults, as commented TOML."""
    lines: list[str] = []
    config = Config.of(method=method)
    known = method_keys(config.method)
    for table, values in config.tables().items():
        lines += ["", f"[{table}]"]
        for name, value in values.items():
            setting = tomli_w.dumps({name: value}).strip()
            choices = known[name].allowed()
            listed = f" ({', '.join(choices)})" if choices else ""
            lines.append(f"{setting:27} # {known[name].text}{listed}")
    return "\n".join(lines[1:]) + "\n"
