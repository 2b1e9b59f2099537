"""``fedsift run``: its options."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedsift.cli.listed import DATASETS, METHODS, PRESETS
from fedsift.cli.own import add_classes, add_column_kinds, add_encoder
from fedsift.cli.reading import add_reading

EXAMPLES = """\
methods:
{methods}

examples:
  fedsift run                                  the embedded digits; auto chooses the method
  fedsift run --dataset mnist --method iter-topk --set rate=100 --out runs/topk
  fedsift run --out runs/topk --resume         continue after a crash
  fedsift run --dataset mnist --method iter-topk --preset paper-literal
  fedsift run --site north=a.csv --site south=b.csv --validation clean.csv \\
      --label-column diagnosis --id-column patient --out runs/own
  fedsift run --site a=photos/a --site b=photos/b --validation photos/clean --model net:make
  fedsift run --out runs/topk --resume --set rounds=200
  fedsift run --dataset mnist --processes 2    clients in two processes
  fedsift run --keys iter-topk                 every key of a method, its default and meaning
  fedsift run --keys single-loop > experiment.toml
  fedsift run experiment.toml --set seed=1
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    methods = "\n".join(f"  {name:13}{text}" for name, text in METHODS.items())
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
    parser.add_argument("--method", metavar="NAME", help="see below (default: auto)")
    files = parser.add_argument_group("your own files", "in place of a dataset")
    files.add_argument(
        "--site",
        action="append",
        default=[],
        metavar="NAME=DATA",
        help="a site's name and its file, folder or module:function; once per site",
    )
    files.add_argument("--validation", metavar="DATA", help="clean samples")
    files.add_argument("--test", metavar="DATA", help="test samples (default: none)")
    add_reading(parser)
    add_column_kinds(files)
    add_classes(files)
    files.add_argument("--model", metavar="WHAT", help="a model's name, or module:function")
    add_encoder(files)
    parser.add_argument(
        "--preset",
        metavar="NAME",
        default="",
        help=f"a set of keys, which --set overrides: {', '.join(PRESETS)}",
    )
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
        "--labels",
        metavar="PATH",
        help="train on corrected labels, from `fedsift review` or Label Studio",
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=1,
        metavar="N",
        help="spread the clients over N processes of this machine (default: 1; torchrun -m fedsift "
        "run ... does it too, over several machines)",
    )
    parser.add_argument("--resume", action="store_true", help="continue the run in the folder")
    parser.add_argument(
        "--diagnose",
        action="store_true",
        help="after the run, measure which estimator of the hypergradient fits it, and say why",
    )
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
    from fedsift.cli import running  # noqa: PLC0415 - slow to import

    return running.handle(options)
