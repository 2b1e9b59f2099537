"""How many clean samples are needed: the default against single-loop and the clean set alone.

    python -m benchmarks.clean_samples --out results/clean_samples.json
    python docs/dev/make_pictures.py                                        draws it

| data          | sites | wrong labels | model           | clean samples                     |
|---------------|-------|--------------|-----------------|-----------------------------------|
| digits        | 10    | 40 %         | `digits_cnn`    | the first n of the 200 of the demo |
| breast cancer | 3     | 25 %         | 32 hidden units | the first n of 160                |

Sites and test set are the same for every n; 60 rounds, defaults, seeds 0 to 2. Draws are random, so
few clean samples may lack a class, whose labels then cannot be judged. What the file has is kept: a
stopped run goes on.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from benchmarks.breast_cancer import Case, draw, network, provenance, run
from fedsift.data import build
from fedsift.files import write_text
from fedsift.problem.networks import build_model

SIZES = (10, 20, 40, 80, 160)
SEEDS = (0, 1, 2)
NAMES = ("data", "clean", "method", "seed")
METHODS = ("posterior", "single-loop", "clean-only")


def digits(seed: int, clean: int) -> Case:
    """Return the demo's digits with the first clean samples only."""
    data = build("digits", seed=seed)
    truths = [client.true_labels for client in data.clients]
    return Case(
        (data.validation[0][:clean].numpy(), data.validation[1][:clean].numpy()),
        (data.test[0].numpy(), data.test[1].numpy()),
        [(client.inputs.numpy(), client.labels.numpy()) for client in data.clients],
        [truth.numpy() for truth in truths if truth is not None],
    )


def measure(out: Path | None) -> None:
    """Write a row per dataset, number of clean samples, method and seed, as they are done."""
    rows: list[dict[str, Any]] = []
    if out is not None and out.exists():
        rows = json.loads(out.read_text(encoding="utf-8"))["rows"]
    done = {tuple(row[key] for key in NAMES) for row in rows}
    command = "python -m benchmarks.clean_samples --out results/clean_samples.json"
    for seed in SEEDS:
        for clean in SIZES:
            cases = {
                "digits": (digits(seed, clean), build_model("digits_cnn", (1, 8, 8), 10, seed)),
                "breast cancer": (draw(seed, clean, max(SIZES)), network("mlp", seed)),
            }
            for data, (case, model) in cases.items():
                for method in METHODS:
                    named = dict(zip(NAMES, (data, clean, method, seed), strict=True))
                    if tuple(named.values()) in done:
                        continue
                    rows.append(named | run(case, model, method, seed))
                    print(rows[-1], flush=True)
                    if out is not None:
                        found = {**provenance(command), "rows": rows}
                        write_text(out, json.dumps(found, indent=1) + "\n")


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clean_samples")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    measure(options.out)


if __name__ == "__main__":
    main()
