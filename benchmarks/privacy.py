"""Accuracy and F1 against epsilon: what differential privacy for whole sites costs.

    python -m benchmarks privacy [--sites 10 100] [--epsilons 1 3 10 30 100] [--seeds 0 1 2]

Digits, a perceptron, 1,000 samples over all sites, 30 rounds. The noise of a secure sum is drawn
without the masks: sites add z C / √t each and weigh the same, which is the same sum, to fixed point
(tests/client/test_private.py). A run that was done is not done again: ``results/privacy`` has one
row each. ``seen`` is what has the guarantee: the sum, or every reply.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsift.experiment.config import Config
from fedsift.experiment.run import train
from fedsift.experiment.setup import from_config
from fedsift.files import write_text
from fedsift.privacy import multiplier_for
from fedsift.secure.shamir import needed

OUT = Path(__file__).parents[1] / "results" / "privacy"
METHODS = ("fedavg", "posterior")
SAMPLES, ROUNDS, DELTA = 1000, 30, 1e-5
CLIP = 0.1  # below the length of updates without noise, 0.14 to 0.30 on development seed 20


def run(method: str, sites: int, epsilon: float, seen: str, clip: float, seed: int) -> Any:
    """Do one run; an epsilon of 0 is one without noise."""
    noise = {}
    if epsilon:
        z = multiplier_for(epsilon, DELTA, ROUNDS)
        noise = {
            "dp_clip": clip,
            "dp_noise": z / math.sqrt(needed(sites)) if seen == "sum" else z,
            "dp_delta": DELTA,
        }
    config = Config.of(
        dataset="digits",
        method=method,
        model="mlp",
        clients=sites,
        samples_per_client=SAMPLES // sites,
        rounds=ROUNDS,
        eval_every=ROUNDS,
        seed=seed,
        inner_lr=0.1,
        update_rate=1.0,
        model_rate=1.0,
        device="cpu",
        **noise,
    ).resolve()
    start = time.process_time()
    summary = train(from_config(config)).summary
    return {
        "accuracy": summary["test_accuracy"],
        "f1": summary["f1"],
        "cpu_seconds": round(time.process_time() - start, 1),
    }


def main(arguments: list[str]) -> None:
    """Do the runs that are not done yet."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks privacy")
    parser.add_argument("--sites", type=int, nargs="+", default=[100, 10])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0, 1, 3, 10, 30, 100])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--clip", type=float, default=CLIP)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(arguments)
    path = given.out / "runs.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    wanted = [
        (method, sites, epsilon, "sum", given.clip, seed)
        for seed in given.seeds
        for sites in given.sites
        for epsilon in given.epsilons
        for method in given.methods
    ]
    wanted += [
        ("fedavg", sites, 100.0, "reply", given.clip, seed)
        for seed in given.seeds
        for sites in given.sites
    ]
    for one in wanted:
        name = "{} {} {:g} {} {:g} {}".format(*one)
        if name not in found:
            found[name] = run(*one)
            print(name, found[name], flush=True)
            write_text(path, json.dumps(found, indent=1) + "\n")
    print(table(found))


def table(found: Mapping[str, Any]) -> str:
    """Return means over seeds, with the range, as rows of Markdown."""
    groups: dict[str, list[Any]] = {}
    for name, row in found.items():
        groups.setdefault(name.rpartition(" ")[0], []).append(row)
    lines = [
        "| sites | guarantee for | ε | method | seeds | accuracy | F1 |\n",
        "|---|---|---|---|---|---|---|\n",
    ]
    for name, rows in sorted(groups.items(), key=_order):
        method, sites, epsilon, seen, _ = name.split()
        cells = [sites, "–" if epsilon == "0" else seen, "none" if epsilon == "0" else epsilon]
        cells += [
            f"`{method}`",
            str(len(rows)),
            *(_spread([row[key] for row in rows]) for key in ("accuracy", "f1")),
        ]
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)


def _order(group: tuple[str, Any]) -> tuple[Any, ...]:
    method, sites, epsilon, seen, clip = group[0].split()
    level = float(epsilon) or math.inf
    return int(sites), seen == "reply", -level, method, float(clip)


def _spread(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    if len(known) == 1:
        return f"{known[0]:.3f}"
    return f"{statistics.fmean(known):.3f} ({min(known):.3f} to {max(known):.3f})"
