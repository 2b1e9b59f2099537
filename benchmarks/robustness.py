"""Accuracy and F1 with 0, 1 and 3 of 10 sites lying, per kind of lie and rule of aggregation.

    python -m benchmarks robustness [--dataset digits] [--model mlp] [--rounds 30] [--seeds 0 1 2]

A liar changes all vectors that it sends (updates, products, sketches), not its scalars. Updates and
models travel whole, as they do with every rule but the mean.

| lie        | a liar sends                                                    |
|------------|-----------------------------------------------------------------|
| flipped    | −u                                                              |
| x100       | 100 u                                                           |
| x-10       | −10 u                                                           |
| random     | normal numbers of variance 1                                    |
| stale      | in every round what it sent in the first                        |
| nan        | u with one NaN                                                  |
| inflated   | −u, and claims 10^9 samples                                     |

A run that was done is not done again: ``results/robustness/DATASET-MODEL.json`` has one row each,
with the sites that were named: dropped, or among the suspects of ``summary.json``. ``--out`` is for
runs with another number of rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from fedsift.compress import Payload, Sketch, Sparse
from fedsift.errors import FedsiftError
from fedsift.experiment.config import Config
from fedsift.experiment.run import train
from fedsift.experiment.setup import from_config
from fedsift.federation.judged import PRODUCTS, UPDATES
from fedsift.federation.robust import RULES, clipped, numbers_of
from fedsift.files import write_text
from fedsift.messages import ClientId, Federation, Reply, Request

OUT = Path(__file__).parents[1] / "results" / "robustness"
LIES = ("flipped", "x100", "x-10", "random", "stale", "nan", "inflated")
FACTORS = {"flipped": -1.0, "inflated": -1.0, "x100": 100.0, "x-10": -10.0}
CLIENTS, CLAIMED = 10, 10**9


class Lying:
    """A federation of which the first clients lie."""

    def __init__(self, inner: Federation, liars: int, lie: str) -> None:
        self.inner, self.liars, self.lie = inner, liars, lie
        self._first: dict[tuple[ClientId, str], Payload] = {}
        self._source = torch.Generator().manual_seed(1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def sizes(self) -> Mapping[ClientId, int]:
        """N_m, as clients claim."""
        inflated = self.lie == "inflated"
        return {
            m: CLAIMED if inflated and m < self.liars else n for m, n in self.inner.sizes.items()
        }

    def ask(self, request: Request, clients: Sequence[ClientId]) -> list[Reply]:
        """Ask; the liars' vectors are changed."""
        return [
            self._changed(r) if r.client < self.liars and r.error is None else r
            for r in self.inner.ask(request, clients)
        ]

    def _changed(self, reply: Reply) -> Reply:
        vectors = {n: p for n, p in reply.arrays.items() if n in UPDATES + PRODUCTS}
        changed = {n: self._lied(reply.client, n, p) for n, p in vectors.items()}
        return replace(reply, arrays={**reply.arrays, **changed})

    def _lied(self, client: ClientId, name: str, payload: Payload) -> Payload:
        if self.lie in FACTORS:
            return clipped(payload, FACTORS[self.lie])
        if self.lie == "stale":
            return self._first.setdefault((client, name), payload)
        numbers = numbers_of(payload)
        if self.lie == "random":
            changed = torch.randn(numbers.shape, generator=self._source).to(numbers)
        else:
            changed = numbers.clone()
            changed.view(-1)[0] = float("nan")
        if isinstance(payload, Sparse):
            return replace(payload, values=changed, bits=0)
        return replace(payload, table=changed) if isinstance(payload, Sketch) else changed


def run(config: Config, lie: str, liars: int) -> dict[str, Any]:
    """Do one run; return its figures, and who was named."""
    setup = from_config(config)
    if liars:
        setup = replace(setup, federation=Lying(setup.federation, liars, lie))
    start = time.process_time()
    try:
        summary = train(setup).summary
    except FedsiftError as error:
        return {"ended": str(error)}
    named = {**summary.get("suspects", {}), **summary.get("dropped", {})}
    return {
        "accuracy": summary["test_accuracy"],
        "f1": summary["f1"],
        "named": sorted(named),
        "cpu_seconds": round(time.process_time() - start, 1),
    }


def main(arguments: list[str]) -> None:
    """Do the runs that are not done yet, those of the default rule first."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks robustness")
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--model", default="mlp")
    parser.add_argument("--method", default="posterior")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rules", nargs="+", default=list(RULES))
    parser.add_argument("--liars", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(arguments)
    path = given.out / f"{given.dataset}-{given.model}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    wanted = [(rule, "none", 0) for rule in given.rules]
    wanted += [(rule, lie, n) for n in given.liars for rule in given.rules for lie in LIES]
    for rule, lie, liars in wanted:
        for seed in given.seeds:
            name = f"{given.dataset} {given.method} {rule} {lie} {liars} {seed}"
            if name in found:
                continue
            config = Config.of(
                dataset=given.dataset,
                method=given.method,
                model=given.model,
                clients=CLIENTS,
                rounds=given.rounds,
                eval_every=given.rounds,
                seed=seed,
                aggregation=rule,
                update_rate=1.0,
                model_rate=1.0,
                inner_lr=0.1,
                device="cpu",
            ).resolve()
            found[name] = run(config, lie, liars)
            print(name, found[name], flush=True)
            write_text(path, json.dumps(found, indent=1) + "\n")
    print(table(found))


def table(found: Mapping[str, Any]) -> str:
    """Return the means over seeds, a row per rule and a column per lie."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for name, row in found.items():
        groups.setdefault(tuple(name.split()[:-1]), []).append(row)
    lines = []
    for (dataset, method, rule, lie, liars), rows in groups.items():
        ended = sum("ended" in row for row in rows)
        done = [row for row in rows if "ended" not in row]
        figures = [
            f"{statistics.fmean(row[key] for row in done):.3f}" if done else "-"
            for key in ("accuracy", "f1")
        ]
        liars_named = [all(str(m) in row["named"] for m in range(int(liars))) for row in done]
        others = [sum(int(m) >= int(liars) for m in row["named"]) for row in done]
        lines.append(
            f"{dataset:7} {method:12} {rule:17} {liars} {lie:9} {figures[0]:>6} {figures[1]:>6} "
            f"named {sum(liars_named)}/{len(rows)} honest named {sum(others)} ended {ended}"
        )
    return "\n".join(lines)
