"""FOCUS's α and Preprocess's threshold, chosen on development seeds as our own constants were.

    python -m benchmarks.tuned_baselines                    all cells that are not there yet
    python -m benchmarks.tuned_baselines --seeds 20

digits, 10 sites, both splits, 60 rounds, γ = 0.1, seeds 20 to 22. The value with the lowest mean
loss on the server's clean set at the last round is chosen, over both splits and all seeds: neither
baseline's model is trained on that set, and no test sample is looked at. α = 0 is FedAvg; a
threshold of 0 is the one that Preprocess finds by itself. ``f1`` is of the samples removed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from benchmarks.breast_cancer import provenance
from fedsift.experiment.config import Config, read_by
from fedsift.experiment.paper_grid import PINNED
from fedsift.experiment.run import train
from fedsift.experiment.setup import from_config
from fedsift.files import write_text

OUT = Path("results/tuned_baselines.json")
GRID: dict[tuple[str, str], tuple[float, ...]] = {
    ("focus", "focus_alpha"): (0.0, 0.3, 1.0, 3.0, 10.0),
    ("preprocess", "preprocess_threshold"): (0.0, 0.5, 1.0, 2.0, 4.0),
}
ROUNDS, SPLITS = 60, ("iid", "non-iid")


def measure(method: str, key: str, value: float, split: str, seed: int) -> dict[str, Any]:
    """Run one cell."""
    keys: dict[str, Any] = {"dataset": "digits", "split": split, "seed": seed, key: value}
    keys |= {"rounds": ROUNDS, "eval_every": ROUNDS, **PINNED}
    summary = train(
        from_config(Config.of(method=method, **read_by(method, keys)).resolve())
    ).summary
    return {
        "validation_loss": summary["validation_loss"],
        "test_accuracy": summary["test_accuracy"],
        "f1": summary["weights_f1"],
    }


def chosen(cells: Mapping[str, Mapping[str, Any]], method: str, key: str) -> float:
    """Return the value of lowest mean loss on the clean set."""
    losses: dict[float, list[float]] = {}
    for name, cell in cells.items():
        who, what, value, *_ = name.split()
        if (who, what) == (method, key):
            losses.setdefault(float(value), []).append(cell["validation_loss"])
    return min(losses, key=lambda value: fmean(losses[value]))


def run(seeds: Sequence[int], out: Path) -> None:
    """Measure all cells that the file lacks, and choose."""
    written = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {"cells": {}}
    written |= provenance("python -m benchmarks.tuned_baselines")
    grid = [
        (*names, value, split, seed)
        for seed in seeds
        for names, values in GRID.items()
        for value in values
        for split in SPLITS
    ]
    for cell in grid:
        name = " ".join(map(str, cell))
        if name not in written["cells"]:
            written["cells"][name] = measure(*cell)
            print(name, written["cells"][name], file=sys.stderr, flush=True)
            write_text(out, json.dumps(written, indent=1) + "\n")
    written["chosen"] = {key: chosen(written["cells"], method, key) for method, key in GRID}
    write_text(out, json.dumps(written, indent=1) + "\n")


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuned_baselines")
    parser.add_argument("--seeds", type=int, nargs="+", default=[20, 21, 22])
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    run(options.seeds, options.out)


if __name__ == "__main__":
    main()
