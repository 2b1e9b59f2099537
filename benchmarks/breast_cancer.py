"""Wrong labels in a small table: fedsift, its baselines, and cleanlab with all data in one place.

    python -m benchmarks.breast_cancer --out results/breast_cancer.json
    python -m benchmarks.breast_cancer --seeds 20 21 22 23 24 --out DIR/breast_cancer.json

scikit-learn's breast-cancer table (569 rows, 30 numbers, 2 classes), drawn anew for every seed:
60 clean rows at the server, 149 to test on, the other 360 at three sites with a quarter of the
labels flipped. Numbers are standardised by the clean rows' mean and deviation. Every method has its
defaults but step sizes, which are those of the paper's grid; seeds 20 to 29 are for development,
0 to 4 are reported.

| column   | meaning                                                                    |
|----------|----------------------------------------------------------------------------|
| f1       | of the audit's flags over all sites, a wrong label being the positive class |
| own      | the same of the method's own rule: weights below 0.5                       |
| accuracy | on the test rows, of the last model                                        |

`cleanlab` gets all sites' rows at once, and 5-fold probabilities of scikit-learn's logistic
regression; it has no clean rows and no test.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from cleanlab.filter import find_label_issues
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import fedsift as fs
from fedsift.algorithms.registry import METHODS as KNOWN
from fedsift.experiment.config import read_by
from fedsift.experiment.paper_grid import PINNED
from fedsift.files import write_text

SITES, CLEAN, TEST, FLIPPED, ROUNDS = 3, 60, 149, 0.25, 60
METHODS = (
    *("auto", "single-loop", "clean-only", "preprocess", "disagreement", "fedavg", "oracle"),
)
MODELS = ("linear", "mlp")
REPORTED = (0, 1, 2, 3, 4)

Pair = tuple[npt.NDArray[Any], npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Case:
    """What the server and the sites have, and the truth."""

    clean: Pair
    test: Pair
    sites: list[Pair]
    truth: list[npt.NDArray[Any]]

    @property
    def wrong(self) -> npt.NDArray[np.bool_]:
        """Which labels are wrong, all sites in order."""
        pairs = zip(self.sites, self.truth, strict=True)
        return np.concatenate([given != true for (_, given), true in pairs])


def draw(seed: int, clean: int = CLEAN, reserved: int = CLEAN) -> Case:
    """Split the table at random, standardise it by the clean rows, flip labels of the sites.

    The server uses ``clean`` of the rows that are ``reserved`` for it.
    """
    inputs, labels = load_breast_cancer(return_X_y=True)
    random = np.random.default_rng(seed)
    order = random.permutation(len(labels))
    inputs, labels = inputs[order], labels[order]
    scaler = StandardScaler().fit(inputs[:clean])
    inputs = scaler.transform(inputs).astype(np.float32)
    held, rest = slice(reserved, reserved + TEST), slice(reserved + TEST, None)
    flipped = random.random(len(labels[rest])) < FLIPPED
    given = np.where(flipped, 1 - labels[rest], labels[rest])
    at = np.array_split(np.arange(len(given)), SITES)
    return Case(
        (inputs[:clean], labels[:clean]),
        (inputs[held], labels[held]),
        [(inputs[rest][rows], given[rows]) for rows in at],
        [labels[rest][rows] for rows in at],
    )


def network(name: str, seed: int) -> nn.Module:
    """Return logistic regression or a network with one hidden layer, as torch draws them."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if name == "linear":
            return nn.Linear(30, 2)
        return nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 2))


def run(case: Case, model: nn.Module, method: str, seed: int) -> dict[str, float | None]:
    """Train with a method; return F1 of its audit's flags, of its weights, and the accuracy."""
    federation = fs.simulate(model, case.sites, case.clean, test=case.test, true_labels=case.truth)
    result = fs.fit(federation, method=method, rounds=ROUNDS, seed=seed, **read_by(method, PINNED))
    accuracy = float(result.history["test_accuracy"].iloc[-1])
    if not KNOWN[method].learns_weights:
        return {"f1": None, "own": None, "accuracy": accuracy}
    tables = [result.label_issues(m).sort_values("index") for m in range(len(case.sites))]
    flags = np.concatenate([table["is_label_issue"].to_numpy() for table in tables])
    own = np.concatenate([table["weight"].to_numpy() < 0.5 for table in tables])
    f1, own_f1 = (float(f1_score(case.wrong, found)) for found in (flags, own))
    return {"f1": f1, "own": own_f1, "accuracy": accuracy}


def central_cleanlab(case: Case) -> dict[str, float | None]:
    """Return what cleanlab finds with all rows in one place."""
    inputs, labels = (np.concatenate(part) for part in zip(*case.sites, strict=True))
    judge = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    p = cross_val_predict(judge, inputs, labels, cv=5, method="predict_proba")
    found = find_label_issues(labels, p, n_jobs=1)
    return {"f1": float(f1_score(case.wrong, found)), "own": None, "accuracy": None}


def measure(seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return a row per method, model and seed."""
    rows: list[dict[str, Any]] = []
    for seed in seeds:
        case = draw(seed)
        rows.append({"method": "cleanlab", "model": "linear", "seed": seed})
        rows[-1] |= central_cleanlab(case)
        for name in MODELS:
            for method in METHODS:
                rows.append({"method": method, "model": name, "seed": seed})
                rows[-1] |= run(case, network(name, seed), method, seed)
    return rows


def provenance(command: str) -> dict[str, str]:
    """Return what a file of results says of its making."""
    return {
        "command": command,
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads, "
        f"torch {torch.__version__}",
        "date": datetime.now(UTC).date().isoformat(),
    }


def _words(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.breast_cancer")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(REPORTED))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows = measure(options.seeds)
    for model, method in dict.fromkeys((row["model"], row["method"]) for row in rows):
        same = [row for row in rows if (row["model"], row["method"]) == (model, method)]
        shown = [f"{model:8}{method:14}"]
        for key in ("f1", "own", "accuracy"):
            values = [row[key] for row in same if row[key] is not None]
            if values:
                spread = f"({min(values):.3f} to {max(values):.3f})"
                shown.append(f"{key} {np.mean(values):.3f} {spread}")
        print("  ".join(shown))
    if options.out is not None:
        chosen = "" if tuple(options.seeds) == REPORTED else f"--seeds {_words(options.seeds)} "
        command = f"python -m benchmarks.breast_cancer {chosen}--out {options.out}"
        found = {**provenance(command), "seeds": options.seeds, "rows": rows}
        write_text(options.out, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
