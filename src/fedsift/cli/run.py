"""``fedsift run``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedsift.cli.progress import progress
from fedsift.cli.table import print_table
from fedsift.experiment.config import KEYS, Config, from_mapping, parse_setting, read_toml
from fedsift.experiment.methods import METHODS
from fedsift.experiment.run import execute, read_config
from fedsift.report import write_report

EXAMPLES = """\
examples:
  fedsift run                                     iter-sketch on the embedded digits
  fedsift run --dataset mnist --method iter-topk --set rate=100 --out runs/topk-100
  fedsift run experiment.toml --set seed=1
  fedsift run --out runs/topk-100 --resume        go on after a crash or with more --set rounds=...
  fedsift run --keys                              every key, its default and its meaning
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    text = "train with one method and write a run folder"
    parser = commands.add_parser(
        "run",
        help=text,
        description=text.capitalize() + ".",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", nargs="?", type=Path, metavar="CONFIG.toml")
    parser.add_argument("--dataset", help="digits, mnist, cifar10 or femnist")
    parser.add_argument("--method", help=", ".join(METHODS))
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="any key; may be repeated"
    )
    parser.add_argument("--out", type=Path, help="run folder (default: runs/DATASET-METHOD-SEED)")
    parser.add_argument("--resume", action="store_true", help="continue the run in the folder")
    parser.add_argument("--keys", action="store_true", help="list all keys and stop")
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Do one run."""
    if options.keys:
        _print_keys()
        return 0
    config = configuration(options)
    out = options.out or Path("runs") / f"{config.dataset}-{config.method}-{config.seed}"
    with progress(config.method, config.rounds) as observe:
        summary = execute(config, out, resume=options.resume, observe=observe)
    write_report([out], out / "report.html")
    print_table([summary])
    print(f"run folder: {out}\nreport:     {out / 'report.html'}")
    return 0


def configuration(options: argparse.Namespace) -> Config:
    """Put together the file, the options and ``--set``, the later winning."""
    values: dict[str, Any] = {}
    where = "command line"
    if options.config is not None:
        values, where = read_toml(options.config), str(options.config)
    elif options.resume and options.out is not None and (options.out / "config.toml").exists():
        values = read_config(options.out).tables()
    flat = {k: v for table in values.values() if isinstance(table, dict) for k, v in table.items()}
    from_mapping(values, where)  # report a fault in the file under the file's name
    flat |= {k: v for k, v in values.items() if not isinstance(v, dict)}
    given = {"dataset": options.dataset, "method": options.method}
    flat |= {k: v for k, v in given.items() if v is not None}
    flat |= dict(parse_setting(text) for text in options.set)
    return from_mapping(flat, "command line")


def _print_keys() -> None:
    for name, spec in KEYS.items():
        choices = spec.metadata["choices"]
        extra = f" [{', '.join(choices)}]" if choices else ""
        print(
            f"{spec.metadata['table']:>10}  {name} = {spec.default!r}: {spec.metadata['text']}{extra}"
        )
