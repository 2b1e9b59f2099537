"""``fedsift reproduce``: its options."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedsift.cli.background import INSIDE
from fedsift.cli.listed import FIGURES, PRESETS, SCALES, TERMS, THEORY

EXAMPLES = """\
fig1    test accuracy against rounds: MNIST, FEMNIST, CIFAR-10; baselines, controls, our methods
fig2    F1 of the wrong labels against rounds on MNIST at rates 1, 10, 100, 1000
fig3    the same on FEMNIST
theory  what the paper proves or takes for granted beside what is measured, in parts

OUT/runs has a folder per run, OUT/results a small file per run, OUT the figures and a table. Runs
that are done are not made again. After any interruption, of a run or between runs, the same command
continues; several processes may work at one folder, and each takes the next run that is free.

examples:
  fedsift reproduce fig1                         minutes; embedded digits without FEDSIFT_DATA
  fedsift reproduce fig1 --scale paper --background --jobs 2
  fedsift reproduce fig1 --scale paper --status   what is done, running, queued; time left
  fedsift reproduce fig1 --scale paper --datasets mnist --splits iid --seeds 0,1 --terms as-paper
  fedsift reproduce fig1 --scale paper --methods iter-topk --preset paper-literal --rounds 60
  fedsift reproduce fig2 --scale paper --methods iter-sketch --rates 10,100
  fedsift reproduce fig1 --draw results/longer --out docs/images
  fedsift reproduce theory                       all parts, small
  fedsift reproduce theory --part theorem1 --scale paper
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "reproduce",
        description="Make the runs behind a figure of the paper, and draw it.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("figure", choices=(*FIGURES, "theory"), help="see below")
    parser.add_argument(
        "--scale",
        choices=SCALES,
        default="quick",
        help="quick: minutes; paper: the paper's sizes, hours (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for runs, results and figures (default: runs/reproduce-SCALE)",
    )
    _add_choice(parser.add_argument_group("which runs"))
    _add_queue(parser.add_argument_group("how they are made"))
    parser.set_defaults(handler=handle)


def _add_choice(group: Any) -> None:
    names = {"metavar": "A,B", "type": _words, "default": ()}
    group.add_argument("--datasets", **names, help="only these datasets")
    group.add_argument("--splits", **names, help="only these of iid, non-iid")
    group.add_argument("--methods", **names, help="these methods instead of the figure's own")
    numbers = {"metavar": "N,N", "type": _numbers, "default": ()}
    group.add_argument("--rates", **numbers, help="only these of 1, 10, 100, 1000 (fig2, fig3)")
    group.add_argument("--seeds", **numbers, help="these seeds (default: 0; paper: 0,1)")
    group.add_argument(
        "--terms",
        **names,
        help=f"only these of {', '.join(TERMS)}: no method has a head start on the clean set, or "
        "all have the same (default: as-paper; paper: both)",
    )
    group.add_argument(
        "--iterations",
        **numbers,
        help="solver iterations I of iter-topk and iter-sketch (default: 1; paper, fig1: 1,5)",
    )
    group.add_argument(
        "--rounds",
        metavar="N",
        type=int,
        help="number of rounds (default: 40 or 8; paper: 150 to 300, until FedAvg has fallen by 3 "
        "points)",
    )
    group.add_argument(
        "--part", action="append", choices=THEORY, help="only this part of theory; may be repeated"
    )
    group.add_argument("--preset", metavar="NAME", default="", help=", ".join(PRESETS))
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any other key, for the methods that read it",
    )


def _add_queue(group: Any) -> None:
    group.add_argument("--jobs", metavar="N", type=int, default=1, help="runs side by side, each "
                       "with one thread (default: 1, with all threads)")  # fmt: skip
    group.add_argument(
        "--background",
        action="store_true",
        help="go on in the background; it prints into OUT/queue.log, OUT/queue.pid is its number",
    )
    group.add_argument(INSIDE, action="store_true", help=argparse.SUPPRESS)
    group.add_argument(
        "--status",
        action="store_true",
        help="print what is done, running and queued and how long the rest takes, and stop",
    )
    group.add_argument("--no-draw", action="store_true", help="make the runs and draw nothing")
    group.add_argument(
        "--draw", type=Path, metavar="DIR", help="run nothing: draw from this folder of results"
    )


def handle(options: argparse.Namespace) -> int:
    """Run and draw, or one of them."""
    from fedsift.cli import reproducing  # noqa: PLC0415 - slow to import

    return reproducing.handle(options)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text: str) -> list[int]:
    if not all(word.isdigit() for word in _words(text)):
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of whole numbers such as 0,1")
    return [int(word) for word in _words(text)]
