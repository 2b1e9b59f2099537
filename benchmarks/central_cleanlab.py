"""What cleanlab finds when it has all samples in one place: a reference without privacy.

    python -m benchmarks.central_cleanlab --dataset mnist --split iid --seed 0 --out FILE.json
    python -m benchmarks.central_cleanlab --set batch_size=256 --set inner_lr=0.01

All clients' samples are pooled and cut into folds. For each fold the run's own network is trained
on the others, by the run's own SGD (`inner_lr`, `batch_size`, `l2`), from the same start; the epoch
is the one of lowest loss on the server's clean samples, never chosen by the truth. Its class
probabilities on the fold it has not seen are what `cleanlab.filter.find_label_issues` gets.

| row                    | suspects                                                              |
|------------------------|-----------------------------------------------------------------------|
| `prune_by_noise_rate`  | cleanlab's default: confident learning, off-diagonal by off-diagonal  |
| `both`                 | those that pruning by class finds too                                 |
| `low_normalized_margin`| as many of the lowest margins as confident learning counts issues     |
| `disagreement`         | plainly where another class is more probable                          |

F1, precision and recall are of these suspects; AUC is that of the score which ranks them:
cleanlab's `self_confidence` or `normalized_margin`, p(label) / (p(label) + the largest other p).
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cleanlab
import numpy as np
import torch
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores
from torch import Tensor

from fedsift.algorithms.fedavg import LocalKeys, local_of
from fedsift.experiment.config import Config, from_mapping, parse_setting
from fedsift.experiment.metrics import detection
from fedsift.experiment.run import versions
from fedsift.experiment.setup import Setup, from_config
from fedsift.files import write_text
from fedsift.problem import LabelledBatch
from fedsift.problem.predict import predict
from fedsift.problem.sgd import local_sgd
from fedsift.randomness import generator

EPOCHS, FOLDS = 50, 5
FILTERS = {  # how cleanlab picks the suspects: the score that ranks them
    "prune_by_noise_rate": "self_confidence",
    "both": "self_confidence",
    "low_normalized_margin": "normalized_margin",
}


@dataclass(frozen=True)
class CrossValidation:
    """Class probabilities from models that have not seen the sample, and each fold's epoch."""

    probabilities: Tensor
    epochs: list[int]
    losses: list[float]


def cross_validate(setup: Setup, pooled: LabelledBatch, folds: int, epochs: int) -> CrossValidation:
    """Train on all folds but one, predict the one, for each."""
    order = torch.randperm(len(pooled), generator=generator(setup.config.seed, "folds"))
    out = torch.empty(len(pooled), setup.data.classes)
    chosen, losses = [], []
    for fold, held in enumerate(order.tensor_split(folds)):
        rest = torch.cat([part for f, part in enumerate(order.tensor_split(folds)) if f != fold])
        y, epoch, loss = train(setup, pooled, rest, epochs, fold)
        out[held] = predict(setup.model, y, pooled.inputs[held]).cpu()
        chosen.append(epoch)
        losses.append(loss)
    return CrossValidation(out, chosen, losses)


def train(
    setup: Setup, pooled: LabelledBatch, positions: Tensor, epochs: int, fold: int
) -> tuple[Tensor, int, float]:
    """Return the model of the epoch with the lowest validation loss, that epoch and its loss."""
    config, problem = setup.config, setup.server.problem
    own = config.settings[LocalKeys]
    part, trust = pooled.take(positions), torch.ones(len(pooled))
    steps = max(1, len(part) // own.batch_size) if own.batch_size else 1  # one pass
    local = replace(local_of(config.settings), steps=steps)
    y = setup.model.initial()
    best, epoch, lowest = y, 0, math.inf
    for e in range(1, epochs + 1):
        source = generator(config.seed, "central", fold, e)
        y, _ = local_sgd(problem, trust, y, part, local, source)
        with torch.no_grad():
            loss = float(problem.outer_loss(y.new_zeros(0), y, setup.server.validation))
        if loss < lowest:
            best, epoch, lowest = y, e, loss
    return best, epoch, lowest


def score(labels: Tensor, probabilities: Tensor, wrong: Tensor | None) -> dict[str, dict[str, Any]]:
    """Compare the suspects of each way to find them with the truth."""
    given, p = labels.numpy(), probabilities.double().numpy()
    p /= p.sum(axis=1, keepdims=True)
    rows = {}
    for name, quality in FILTERS.items():
        suspects = find_label_issues(given, p, filter_by=name, n_jobs=1)
        ranked = get_label_quality_scores(given, p, method=quality)
        rows[name] = _row(suspects, ranked, wrong)
    at = np.arange(len(given)), given
    own, others = p[at], p.copy()
    others[at] = 0.0
    share = own / (own + others.max(axis=1))
    rows["disagreement"] = _row(p.argmax(axis=1) != given, share, wrong)
    return rows


def _row(suspects: Any, ranked: Any, wrong: Tensor | None) -> dict[str, Any]:
    """Return F1, precision and recall of the suspects, and the AUC of what ranks them."""
    found = detection(torch.from_numpy(~suspects).double(), wrong)  # weight 0: suspect
    auc = detection(torch.from_numpy(ranked), wrong)["auc"]
    return {**found, "auc": auc, "suspects": int(suspects.sum())}


def measure(config: Config, folds: int = FOLDS, epochs: int = EPOCHS) -> dict[str, Any]:
    """Return everything that goes into the file."""
    start = time.perf_counter()
    setup = from_config(config.resolve())
    clients = setup.data.clients
    pooled = LabelledBatch.of(
        torch.cat([c.inputs for c in clients]), torch.cat([c.labels for c in clients])
    )
    out = cross_validate(setup, pooled, folds, epochs)
    rows = score(pooled.labels, out.probabilities, setup.wrong())
    keys = ("dataset", "split", "seed", "model", "inner_lr", "batch_size", "l2")
    return {
        **{key: setup.config.value(key) for key in keys},
        "samples": len(pooled),
        "noise_rate": setup.data.noise_rate,
        "folds": folds,
        "epochs": epochs,
        "chosen_epochs": out.epochs,
        "validation_losses": out.losses,
        "found": rows,
        "seconds": round(time.perf_counter() - start, 1),
        "versions": {**versions(), "cleanlab": cleanlab.__version__},
    }


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.central_cleanlab")
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--split", default="iid")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument(
        "--epochs", type=int, default=EPOCHS, help=f"passes over the data per fold ({EPOCHS})"
    )
    parser.add_argument("--set", action="append", default=[], metavar="key=value", dest="settings")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(arguments)
    keys = {"dataset": args.dataset, "split": args.split, "seed": args.seed, "device": "cpu"}
    keys |= {"method": "fedavg", "inner_lr": 0.1}  # its problem and its local steps
    keys |= dict(parse_setting(text) for text in args.settings)
    found = measure(from_mapping(keys, "central_cleanlab"), args.folds, args.epochs)
    for name, row in found["found"].items():
        shown = "  ".join(f"{k} {row[k]:.3f}" for k in ("f1", "precision", "recall", "auc"))
        print(f"{name:24}{shown}  {row['suspects']} suspects")
    print(f"epochs chosen: {found['chosen_epochs']} of {args.epochs}, {found['seconds']} s")
    if args.out is not None:
        write_text(args.out, json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
