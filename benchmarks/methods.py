"""All methods beside each other: accuracy, detection, seconds, bytes, exchanges, residual.

    python -m benchmarks methods                               all cells that are not there yet
    python -m benchmarks methods --datasets digits --methods first-order "first-order, plain"
    python -m benchmarks methods --datasets mnist --splits iid --seeds 0

The paper's sizes (10 sites x 500 samples, 500 clean ones; digits: 100 and 200), 40 % of the labels
any other class, or a share of U[0.2, 0.9] per site (non-iid); `features` are those of
``benchmarks.real_noise``, with symmetric noise in place of iid and a linear head. A bilevel method
has two rows: with all aids (head start, bootstrap, self-pacing, decay: the defaults), and `plain`
without; `all clean` trains on all clean samples, none of which judges. One JSON file per cell in
results/methods. ``f1`` and ``auc`` are the audit's, those with ``weights_`` those of the weights;
``residual`` is that of the last round, by the method. Models and updates travel uncompressed; what
compressing them costs is in ``benchmarks.bytes``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import fedsift as fs
from benchmarks import real_noise
from benchmarks.breast_cancer import provenance
from fedsift.experiment.config import Config
from fedsift.experiment.paper_grid import DENSE
from fedsift.experiment.run import train
from fedsift.experiment.setup import from_config
from fedsift.files import write_text
from fedsift.problem.networks import build_model

ROUNDS = {"digits": 40, "mnist": 60, "femnist": 90, "cifar10": 30, "features": 60}
SIZES = {"samples_per_client": 500, "validation_size": 500}  # FEMNIST's own are by writer
SPLITS = ("iid", "non-iid")
SEEDS = (0, 1, 2)
OUT = Path("results/methods")
PLAIN: dict[str, Any] = {"head_start": 0, "bootstrap": 0.0, "outer_decay": 0}
BILEVEL = (
    *("iter-topk", "iter-sketch", "non-iter", "no-hessian", "simfbo", "fedbioacc"),
    *("single-loop", "first-order", "clean-step"),
)
METHODS: dict[str, tuple[str, Mapping[str, Any]]] = {
    **{name: (name, {}) for name in ("oracle", "fedavg")},
    **{f"{name}, plain": (name, PLAIN) for name in BILEVEL},
    **{name: (name, {}) for name in (*BILEVEL, "posterior", "out-of-fold")},
    **{
        f"{name}, all clean": (name, {"train_share": 1.0}) for name in ("first-order", "clean-step")
    },
}
HEADS = ("out-of-fold",)  # on features only
KEPT = ("f1", "auc", "judged_accuracy", "bytes_up", "bytes_down", "exchanges", "seconds")
LAST = ("weights_f1", "weights_auc", "residual")


def measure(
    dataset: str, split: str, method: str, seed: int, rounds: int, keys: Mapping[str, Any]
) -> dict[str, Any]:
    """Run a cell."""
    if dataset == "features":
        return on_features(split, method, seed, rounds, keys)
    config = Config.of(
        dataset=dataset,
        split=split,
        method=method,
        seed=seed,
        rounds=rounds,
        **{"eval_every": 10, **(SIZES if dataset == "femnist" else {}), **DENSE, **keys},
    )
    finished = train(from_config(config.resolve()))
    return kept(finished.summary, finished.rounds[-1])


def on_features(
    split: str, method: str, seed: int, rounds: int, keys: Mapping[str, Any]
) -> dict[str, Any]:
    """Run a cell on features of a pretrained network."""
    case = real_noise.draw("non-iid" if split == "non-iid" else "symmetric", seed)
    model = build_model("linear", case.clean[0].shape[1:], real_noise.CLASSES, seed)
    federation = fs.simulate(model, case.sites, case.clean, test=case.test, true_labels=case.truth)
    result = fs.fit(federation, method, rounds=rounds, seed=seed, progress=False, **DENSE, **keys)
    return kept(result.summary, result.history.iloc[-1].to_dict())


def kept(summary: Mapping[str, Any], last: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a cell keeps of a run."""
    found = {"accuracy": summary["test_accuracy"], **{key: summary.get(key) for key in KEPT}}
    return found | {key: last.get(key) for key in LAST}


def run(
    cells: Sequence[tuple[str, str, str, int, int]],
    rows: Mapping[str, tuple[str, Mapping[str, Any]]],
    out: Path,
    command: str,
) -> None:
    """Measure all cells (dataset, split, row, seed, rounds) that have no file yet."""
    for dataset, split, row, seed, rounds in cells:
        path = (
            out
            / f"{dataset}-{split}-{rounds}-{row.replace(', ', '-').replace(' ', '_')}-{seed}.json"
        )
        if path.exists():
            continue
        method, keys = rows[row]
        cell = {"dataset": dataset, "split": split, "row": row, "method": method, "seed": seed}
        cell |= {"keys": dict(keys), "rounds": rounds}
        cell |= measure(dataset, split, method, seed, rounds, keys)
        write_text(path, json.dumps({**cell, **provenance(command)}, indent=1) + "\n")
        shown = {k: round(v, 3) for k, v in cell.items() if isinstance(v, float)}
        print(path.stem, shown, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks methods")
    parser.add_argument("--datasets", nargs="+", choices=list(ROUNDS), default=list(ROUNDS))
    parser.add_argument("--splits", nargs="+", choices=list(SPLITS), default=list(SPLITS))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--rounds", type=int, default=0, help="0: those of the dataset")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    cells = [
        (dataset, split, row, seed, options.rounds or ROUNDS[dataset])
        for seed in options.seeds
        for dataset in options.datasets
        for split in options.splits
        for row in options.methods
        if dataset == "features" or METHODS[row][0] not in HEADS
    ]
    run(cells, METHODS, options.out, "python -m benchmarks methods")


if __name__ == "__main__":
    main()
