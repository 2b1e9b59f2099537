"""What each aid gives: all on, each off, all off, on digits.

    python -m benchmarks ablations
    python -m benchmarks ablations --methods single-loop --seeds 0

| aid           | off by            |                                                             |
|---------------|-------------------|-------------------------------------------------------------|
| head start    | `head_start=0`    |                                                             |
| bootstrap     | `bootstrap=0`     |                                                             |
| self-pacing   | `self_paced=0`    | the outer step falls, whatever the model is                 |
| decay         | `outer_decay=0`   | self-pacing rests on it, and is off as well                 |

One JSON file per cell in results/ablations, as ``benchmarks.methods`` writes them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from benchmarks.methods import PLAIN, SEEDS, SPLITS, run

OFF: dict[str, dict[str, Any]] = {
    "all on": {},
    "no head start": {"head_start": 0},
    "no bootstrap": {"bootstrap": 0.0},
    "no self-pacing": {"self_paced": 0.0},
    "no decay": {"outer_decay": 0},
    "all off": PLAIN,
}
METHODS = ("single-loop", "no-hessian", "first-order", "clean-step")
ROWS = {f"{method}, {off}": (method, keys) for method in METHODS for off, keys in OFF.items()}
ROUNDS = 40
OUT = Path("results/ablations")


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks ablations")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--splits", nargs="+", choices=list(SPLITS), default=list(SPLITS))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows = [row for row in ROWS if ROWS[row][0] in options.methods]
    cells = [
        ("digits", split, row, seed, ROUNDS)
        for seed in options.seeds
        for split in options.splits
        for row in rows
    ]
    run(cells, ROWS, options.out, "python -m benchmarks ablations")


if __name__ == "__main__":
    main()
