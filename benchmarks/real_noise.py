"""Noisy labels on features of a pretrained network: a linear head, 10 sites, 500 clean samples.

    python -m benchmarks.real_noise                      all cells that are not there yet
    python -m benchmarks.real_noise --methods out-of-fold --noises human_1 --seeds 20 --out DIR
    python -m benchmarks.real_noise --rounds 150         the same for longer, in files of its own
    python -m benchmarks.real_noise --methods out-of-fold --set l2=3.0 learn_l2=true --out DIR

Features of CIFAR-10 images by an ImageNet-trained network, read from
``$FEDSIFT_DATA/features/cifar10-efficientnet-lite0/{train,test}.parquet``: `inputs`, `label`, and
three labels by people, `human_1` to `human_3` (CIFAR-10N, about 18 % wrong). A seed draws 500 clean
samples and 10 x 500 samples of the sites from the train file; the test file is the test set. Seeds
20 to 29 and `human_1` are for development, seeds 0 to 4, `human_2` and `human_3` are reported.

| noise       | labels                                                                       |
|-------------|------------------------------------------------------------------------------|
| `symmetric` | 40 % any other class                                                         |
| `pair`      | 40 % the next class                                                          |
| `non-iid`   | a share of U[0.2, 0.9] per site, any other class                             |
| `human_*`   | by people                                                                    |
| `instance`  | 30 %, the samples that a weak model finds hardest, as its likeliest wrong    |
|             | class; it is trained on 500 samples outside of the task                      |

One JSON file per cell. ``ece`` is the calibration error of the audit's scores in ten bins of equal
width, ``covered`` at how many sites the true share of wrong labels is in its interval, ``width``
the mean width of these intervals.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

import fedsift as fs
from benchmarks.breast_cancer import provenance
from benchmarks.calibration import calibration_error
from fedsift.data.hub import VARIABLE
from fedsift.data.noise import NOISES, About, Outside, rates
from fedsift.files import write_text
from fedsift.problem.networks import build_model
from fedsift.randomness import generator

FOLDER = "features/cifar10-efficientnet-lite0"
SITES, EACH, CLEAN, CLASSES, ROUNDS = 10, 500, 500, 10, 60
METHODS = (
    *("oracle", "fedavg", "clean-only", "preprocess", "disagreement", "glc", "em", "gce", "elr"),
    *("fedelc", "fedcorr", "single-loop", "out-of-fold"),
)
REPORTED = ("symmetric", "pair", "human_2", "human_3", "non-iid", "instance")
SEEDS = (0, 1, 2)
INSTANCE, WEAK = 0.3, 500
OUT = Path("results/real_noise")
KEPT = ("f1", "auc", "bytes_up", "bytes_down", "exchanges", "seconds")

Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Case:
    """What the server and the sites have, and the truth."""

    clean: Pair
    test: Pair
    sites: list[Pair]
    truth: list[Tensor]


@cache
def read(split: str) -> dict[str, Tensor]:
    """Read the features and all labels of a split."""
    frame = pd.read_parquet(Path(os.environ[VARIABLE]) / FOLDER / f"{split}.parquet")
    inputs = torch.from_numpy(np.stack(frame.pop("inputs").to_list()).astype(np.float32))
    labels = {str(name): torch.from_numpy(frame[name].to_numpy(np.int64)) for name in frame}
    return {"inputs": inputs, **labels}


def draw(noise: str, seed: int, clean: int = CLEAN) -> Case:
    """Draw the clean samples and those of the sites; make labels wrong."""
    table, test = read("train"), read("test")
    order = torch.randperm(len(table["label"]), generator=generator(seed, "real noise"))
    parts = order[clean : clean + SITES * EACH].split(EACH)
    outside = order[clean + SITES * EACH :][:WEAK]
    spare = Outside(
        "cifar10", CLASSES, lambda _: (table["inputs"][outside], table["label"][outside])
    )
    rate: Any = (0.2, 0.9) if noise == "non-iid" else 0.4
    shares = rates(SITES, rate, generator(seed, "real noise", "rates"))
    sites, truth = [], []
    for m, (rows, share) in enumerate(zip(parts, shares, strict=True)):
        true, inputs = table["label"][rows], table["inputs"][rows]
        if noise in table:
            given = table[noise][rows]
        elif noise == "instance":
            given = by_a_weak_model(inputs, true, table["inputs"][outside], table["label"][outside])
        else:
            about = About("cifar10", inputs, spare)
            kind = NOISES["symmetric" if noise == "non-iid" else noise]
            given = kind(true, share, CLASSES, generator(seed, "real noise", m), about)
        sites.append((inputs, given))
        truth.append(true)
    first = order[:clean]
    clean_pair = table["inputs"][first], table["label"][first]
    return Case(clean_pair, (test["inputs"], test["label"]), sites, truth)


def by_a_weak_model(inputs: Tensor, true: Tensor, known: Tensor, labels: Tensor) -> Tensor:
    """Give the hardest samples the class that a weak model finds likeliest among the wrong ones."""
    model = LogisticRegression(max_iter=200, C=0.01).fit(known.numpy(), labels.numpy())
    p = model.predict_proba(inputs.numpy())
    p[np.arange(len(true)), true.numpy()] = 0.0
    hardest = np.argsort(-p.sum(axis=1))[: round(INSTANCE * len(true))]
    given = true.clone()
    given[torch.from_numpy(hardest.copy())] = torch.from_numpy(p[hardest].argmax(axis=1))
    return given


def measure(
    method: str, case: Case, seed: int, rounds: int = ROUNDS, keys: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Run a method; return its accuracy and how good its audit is."""
    model = build_model("linear", case.clean[0].shape[1:], CLASSES, seed)
    federation = fs.simulate(model, case.sites, case.clean, test=case.test, true_labels=case.truth)
    result = fs.fit(federation, method, rounds=rounds, seed=seed, progress=False, **(keys or {}))
    found = {"accuracy": result.summary["test_accuracy"], **{k: result.summary[k] for k in KEPT}}
    calibration = result.summary["calibration"]
    if calibration.get("kind") == "noise-model":
        found |= {key: calibration[key] for key in ("beta", "trained_beta")}
        found |= {key: result.summary[key] for key in ("judged_accuracy", "training_helped")}
    return found | (audited(result) if result.audits else {})


def audited(result: Any) -> dict[str, Any]:
    """Compare scores and intervals with the truth."""
    scores, right, inside, widths = [], [], 0, []
    for audit in result.audits:
        assert audit.record.true_labels is not None
        correct = (audit.record.labels == audit.record.true_labels).numpy()
        share, wrong = audit.summary.wrong, 1 - correct.mean()
        inside += share.low <= wrong <= share.high
        widths.append(share.high - share.low)
        scores.append(audit.right)
        right.append(correct)
    ece = calibration_error(np.concatenate(scores), np.concatenate(right))
    return {
        "ece": ece,
        "covered": int(inside),
        "sites": len(widths),
        "width": float(np.mean(widths)),
    }


def name(noise: str, method: str, seed: int, rounds: int, clean: int) -> str:
    """Return the name of a cell; what is not as in the table is said."""
    other = [f"r{rounds}"] * (rounds != ROUNDS) + [f"c{clean}"] * (clean != CLEAN)
    return "-".join([noise, method, str(seed), *other])


def run(
    methods: Sequence[str],
    noises: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    rounds: int,
    clean: int,
    keys: dict[str, Any],
) -> None:
    """Measure all cells that have no file yet."""
    command = f"python -m benchmarks.real_noise --rounds {rounds} --clean {clean}"
    command += "".join(f" --set {key}={json.dumps(value)}" for key, value in keys.items())
    for seed in seeds:
        for noise in noises:
            case = draw(noise, seed, clean)
            for method in methods:
                path = out / f"{name(noise, method, seed, rounds, clean)}.json"
                if path.exists():
                    continue
                cell = {"noise": noise, "method": method, "seed": seed, "rounds": rounds}
                cell["clean"] = clean
                cell |= measure(method, case, seed, rounds, keys)
                write_text(path, json.dumps({**cell, **provenance(command)}, indent=1) + "\n")
                shown = {k: round(v, 3) for k, v in cell.items() if isinstance(v, float)}
                print(noise, method, seed, cell.get("covered"), shown, file=sys.stderr)


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_noise")
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--noises", nargs="+", default=list(REPORTED))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--clean", type=int, default=CLEAN)
    parser.add_argument("--set", nargs="+", default=[], help="keys of the method, as KEY=JSON")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    cells = options.methods, options.noises, options.seeds
    pairs = (part.partition("=") for part in options.set)
    keys = {key: json.loads(value) for key, _, value in pairs}
    run(*cells, options.out, options.rounds, options.clean, keys)


if __name__ == "__main__":
    main()
