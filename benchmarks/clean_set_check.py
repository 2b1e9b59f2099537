"""How often the check of the clean set warns, rightly and wrongly.

    python -m benchmarks.clean_set_check --out results/clean_set_check.json

n samples of digits, the breast-cancer table and MNIST (pixels) are drawn, seeds 100 to 139, once as
they are and once with a tenth of the labels changed; the check's constants were chosen on seeds
20 to 39.

| column    | meaning                                                       |
|-----------|---------------------------------------------------------------|
| said      | share of the clean sets of which it says that labels look wrong |
| recall    | share of the changed labels that it names                     |
| precision | share of the named that were changed                          |
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch import Tensor

from benchmarks.breast_cancer import provenance
from fedsift.data import build
from fedsift.data.clean_set import check_clean_set
from fedsift.files import write_text

SEEDS = range(100, 140)
WRONG = 0.1


def mnist() -> tuple[Tensor, Tensor]:
    """Return 5,000 images with their true labels."""
    clients = build("mnist", noise="none", samples_per_client=500, seed=3).clients
    return torch.cat([c.inputs for c in clients]), torch.cat([c.labels for c in clients])


def check(inputs: Tensor, labels: Tensor, n: int, wrong: float, seed: int) -> tuple[int, int, int]:
    """Return how many labels were changed, how many are named, and how many of these changed."""
    random, classes = np.random.default_rng(seed), int(labels.max()) + 1
    at = torch.from_numpy(random.permutation(len(labels))[:n])
    given, count = labels[at].clone(), round(wrong * n)
    changed = torch.from_numpy(random.permutation(n)[:count])
    shift = torch.from_numpy(random.integers(1, classes, count))
    given[changed] = (given[changed] + shift) % classes
    names = [str(c) for c in range(classes)]
    suspects = set(check_clean_set(inputs[at], given, names, seed=seed).suspects)
    return count, len(suspects), len(suspects & set(changed.tolist()))


def measure() -> list[dict[str, Any]]:
    """Return a row per dataset, number of samples and share of wrong labels."""
    tables = {
        "digits": load_digits(return_X_y=True),
        "breast cancer": load_breast_cancer(return_X_y=True),
    }
    sources = {name: tuple(torch.from_numpy(a) for a in pair) for name, pair in tables.items()}
    sources["MNIST"] = mnist()
    rows = []
    sizes = {"digits": (60, 100, 200), "breast cancer": (30, 60), "MNIST": (200,)}
    for name, n, wrong in [(d, n, w) for d in sizes for n in sizes[d] for w in (0.0, WRONG)]:
        found = np.array([check(*sources[name], n, wrong, seed) for seed in SEEDS])
        changed, named, hits = found.sum(axis=0)
        rows.append(
            {
                "data": name,
                "samples": n,
                "wrong": wrong,
                "said": float((found[:, 1] > 0).mean()),
                "recall": float(hits / changed) if changed else None,
                "precision": float(hits / named) if named and changed else None,
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clean_set_check")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = measure()
    if options.out is not None:
        command = "python -m benchmarks.clean_set_check --out results/clean_set_check.json"
        write_text(options.out, json.dumps({**provenance(command), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
