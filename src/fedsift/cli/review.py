"""``fedsift review``: its options."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedsift.cli.listed import EXPORTS

EXAMPLES = """\
examples:
  fedsift review runs/digits-auto-0 --client 3
  fedsift review runs/own --client north --name reviewer --sample P0012
  fedsift review runs/own --client north --export own --out patients-corrected.csv

The page is served on this machine only, to a browser that has the token in the address. Decisions
are saved at once in RUN/clients/NAME/decisions.jsonl, with who made them and when. `Export` on the
page, or --export, writes the corrected labels; `fedsift run` and `fedsift join` train on them with
--labels RUN/clients/NAME/corrected.parquet. Needs the extra: pip install 'fedsift[review]'.
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "review",
        description="Go through the suspicious labels of a site on a local web page, and export "
        "the corrected ones.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder")
    parser.add_argument("--client", required=True, metavar="NAME", help="the site")
    parser.add_argument(
        "--name", metavar="WHO", help="who decides (default: the name of your account)"
    )
    parser.add_argument("--sample", metavar="ID", help="begin with this sample")
    parser.add_argument(
        "--blind", action="store_true", help="hide label and suggestion until a class is chosen"
    )
    parser.add_argument(
        "--port", type=int, default=0, metavar="N", help="port (default: any free one)"
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument(
        "--export",
        choices=EXPORTS,
        metavar="FORM",
        help=f"write the corrected labels and stop: {', '.join(EXPORTS)}",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="where --export writes")
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Serve the page until interrupted, or export."""
    from fedsift.cli import reviewing  # noqa: PLC0415 - slow to import

    return reviewing.handle(options)
