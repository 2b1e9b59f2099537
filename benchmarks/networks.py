"""Noisy labels and networks that are trained from scratch: accuracy, audit, intervals.

    python -m benchmarks.networks                     all cells that are not there yet
    python -m benchmarks.networks --datasets digits --methods posterior --seeds 20 --out DIR

The paper's sizes (10 sites x 500 samples and 500 clean ones; digits: 100 and 200), 40 % of the
labels any other class, or a share of U[0.2, 0.9] per site (non-iid); all keys at their defaults.
Seeds 20 to 29 are for development, seeds 0 to 4 are reported. One JSON file per cell; ``ece``,
``covered`` and ``width`` as in ``benchmarks.real_noise``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.breast_cancer import provenance
from benchmarks.real_noise import audited
from fedsift.data import SPLITS
from fedsift.experiment.config import Config
from fedsift.experiment.run import train
from fedsift.experiment.setup import from_config
from fedsift.files import write_text

ROUNDS = {"digits": 60, "mnist": 60, "cifar10": 30, "femnist": 90}
SIZES = {"samples_per_client": 500, "validation_size": 500}  # FEMNIST's own are by writer
METHODS = ("oracle", "fedavg", "clean-only", "single-loop", "posterior")
SEEDS = (0, 1, 2)
OUT = Path("results/networks")
KEPT = ("f1", "auc", "judged_accuracy", "bytes_up", "bytes_down", "exchanges", "seconds")


def measure(dataset: str, split: str, method: str, seed: int, rounds: int) -> dict[str, Any]:
    """Run a cell."""
    sizes = SIZES if dataset == "femnist" else {}
    config = Config.of(
        dataset=dataset,
        split=split,
        method=method,
        seed=seed,
        **{"rounds": rounds, "eval_every": 10, **sizes},
    )
    finished = train(from_config(config.resolve()))
    summary = finished.summary
    series = [[r["round"], r["test_accuracy"]] for r in finished.rounds if "test_accuracy" in r]
    found = {"accuracy": summary["test_accuracy"], "series": series}
    found |= {key: summary.get(key) for key in KEPT}
    return found | (audited(finished) if finished.audits else {})


def run(
    datasets: Sequence[str],
    splits: Sequence[str],
    methods: Sequence[str],
    seeds: Sequence[int],
    rounds: int,
    out: Path,
) -> None:
    """Measure all cells that have no file yet."""
    for seed in seeds:
        for dataset in datasets:
            length = rounds or ROUNDS[dataset]
            for split in splits:
                for method in methods:
                    path = out / f"{dataset}-{split}-{length}-{method}-{seed}.json"
                    if path.exists():
                        continue
                    cell = {"dataset": dataset, "split": split, "method": method, "seed": seed}
                    cell |= {"rounds": length, **measure(dataset, split, method, seed, length)}
                    command = f"python -m benchmarks.networks --rounds {length}"
                    write_text(path, json.dumps({**cell, **provenance(command)}, indent=1) + "\n")
                    shown = {k: round(v, 3) for k, v in cell.items() if isinstance(v, float)}
                    print(path.stem, cell.get("covered"), shown, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.networks")
    parser.add_argument("--datasets", nargs="+", choices=list(ROUNDS), default=list(ROUNDS))
    parser.add_argument("--splits", nargs="+", choices=list(SPLITS), default=list(SPLITS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--rounds", type=int, default=0, help="0: those of the dataset")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    cells = options.datasets, options.splits, options.methods, options.seeds
    run(*cells, options.rounds, options.out)


if __name__ == "__main__":
    main()
