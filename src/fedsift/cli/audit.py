"""``fedsift audit``: its options."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedsift.cli.listed import AUDIT_FORMATS

EXAMPLES = """\
examples:
  fedsift audit runs/digits-auto-0                             every site, as csv
  fedsift audit runs/digits-auto-0 --client 3 --format parquet --out site-3
  fedsift audit runs/digits-auto-0 --client 3 --format label-studio
  fedsift audit runs/digits-auto-0 --validation                the clean set instead

columns: site, index and id of the sample, given_label, predicted_label, label_score (probability
that the given label is right), is_label_issue (score below 0.5), confidence of the predicted
label, learned weight; worst first. cleanlab's Datalab uses the same names. The columns of your own
table follow, as they are in its file.
Label Studio gets the samples with an issue, and a labelling configuration beside the tasks.
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "audit",
        description="List the labels that are probably wrong, with a score and a suggestion, and "
        "estimate how many\nthere are at each site.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder")
    parser.add_argument("--client", metavar="NAME", help="one site (default: all)")
    parser.add_argument(
        "--format",
        choices=AUDIT_FORMATS,
        default="csv",
        metavar="NAME",
        help=f"{', '.join(AUDIT_FORMATS)} (default: %(default)s)",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where to write (default: RUN/clients/NAME)"
    )
    parser.add_argument(
        "--validation",
        action="store_true",
        help="list the clean samples that look wrong or that the model contradicts, and stop",
    )
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Write the issues and print a summary per site."""
    from fedsift.cli import auditing  # noqa: PLC0415 - slow to import

    return auditing.handle(options)
