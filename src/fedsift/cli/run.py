"""``fedsift run``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import tomli_w

from fedsift.cli.progress import progress
from fedsift.cli.table import print_table
from fedsift.data.defaults import DEFAULTS
from fedsift.experiment.config import (
    KEYS,
    Config,
    flatten,
    from_mapping,
    parse_setting,
    read_toml,
)
from fedsift.experiment.methods import METHODS
from fedsift.experiment.run import execute, read_config
from fedsift.report import write_report

EXAMPLES = """\
methods:
{methods}

examples:
  fedsift run                                  single-loop on the embedded digits
  fedsift run --dataset mnist --method iter-topk --set rate=100 --out runs/topk
  fedsift run --out runs/topk --resume         go on after a crash
  fedsift run --out runs/topk --resume --set rounds=200
  fedsift run --keys > experiment.toml         every key, its default and its meaning
  fedsift run experiment.toml --set seed=1
"""


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
    parser.add_argument("--dataset", metavar="NAME", help=", ".join(DEFAULTS))
    parser.add_argument("--method", metavar="NAME", help="see below")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="any key; may be repeated"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="run folder (default: runs/DATASET-METHOD-SEED)"
    )
    parser.add_argument(
        "--labels", metavar="PATH", help="train on corrected labels, from `fedsift review`"
    )
    parser.add_argument("--resume", action="store_true", help="continue the run in the folder")
    parser.add_argument("--keys", action="store_true", help="print all keys as TOML and stop")
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Do one run."""
    if options.keys:
        print(all_keys(), end="")
        return 0
    config, out = configuration(options)
    with progress(config.method, config.rounds) as observe:
        finished = execute(config, out, resume=options.resume, observe=observe)
    report = write_report([out], out / "report.html")
    print_table([finished.summary])
    print(f"run folder: {out}\nreport:     {report}")
    return 0


def configuration(options: argparse.Namespace) -> tuple[Config, Path]:
    """Put together the file, the options and ``--set``, the later winning, and the run folder.

    A run that is resumed starts from its own configuration.
    """
    given: dict[str, Any] = {}
    if options.config is not None:
        read = read_toml(options.config)
        from_mapping(read, str(options.config))  # a fault in the file is told under its name
        given |= flatten(read)
    named = {"dataset": options.dataset, "method": options.method, "labels": options.labels}
    given |= {key: value for key, value in named.items() if value is not None}
    given |= dict(parse_setting(text) for text in options.set)
    config = from_mapping(given, "command line")
    out = options.out or Path("runs") / f"{config.dataset}-{config.method}-{config.seed}"
    if options.resume and (out / "config.toml").exists():
        own = flatten(read_config(out).tables())
        config = from_mapping({**own, **given}, "command line")
    return config, out


def all_keys() -> str:
    """Return the defaults as TOML, with a comment on every key."""
    lines: list[str] = []
    table = None
    for name, spec in KEYS.items():
        rule = spec.metadata
        if rule["table"] != table:
            table = rule["table"]
            lines += ["", f"[{table}]"]
        setting = tomli_w.dumps({name: spec.default}).strip()
        choices = f" ({', '.join(rule['choices'])})" if rule["choices"] else ""
        lines.append(f"{setting:26} # {rule['text']}{choices}")
    return "\n".join(lines[1:]) + "\n"
