"""What travels down in Algorithm 2: v in full, or the step that leads to it.

    python -m benchmarks solver_bytes

Digits, seed 20, 8 rounds, nothing compressed but products (rate 20). `whole` sends every array of
every request; `kept` sends what clients lack (``fedsift.versioned``). Both give the same numbers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from benchmarks.breast_cancer import provenance
from fedsift.experiment.config import Config
from fedsift.experiment.loop import compressed_round
from fedsift.experiment.paper_grid import PINNED
from fedsift.experiment.setup import from_config
from fedsift.files import write_text

OUT = Path("results/solver_bytes.json")
ROUNDS = 8
CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("iter-topk", {"iterations": 1}),
    ("iter-topk", {"iterations": 5, "feedback": "ef21"}),
    ("iter-topk", {"iterations": 5, "feedback": "listing"}),
    ("iter-topk", {"iterations": 5, "feedback": "listing", "warm_start": False}),
    ("iter-sketch", {"iterations": 5, "feedback": "ef21"}),
    ("iter-sketch", {"iterations": 5, "feedback": "listing"}),
)


def measure(method: str, keys: dict[str, Any]) -> dict[str, Any]:
    """Return the vectors of the model's length that a client gets per round, both ways."""
    config = Config.of(
        dataset="digits", method=method, seed=20, rounds=ROUNDS, head_start=0, **PINNED, **keys
    ).resolve()
    found: dict[str, Any] = {"method": method, **keys}
    ends = []
    for name in ("whole", "kept"):
        setup = from_config(config)
        state = setup.initial_state()
        for k in range(ROUNDS):
            if name == "whole":
                _, state = setup.algorithm.round(setup.federation, setup.server, state, k)
            else:
                _, state = compressed_round(
                    setup.algorithm, setup.federation, setup.rates, setup.server, state, k
                )
        ends.append(state.y)
        vectors = ROUNDS * len(setup.federation.sizes) * 4 * len(state.y)
        found[name] = round(setup.federation.traffic.bytes_down / vectors, 2)
    return {**found, "same_bits": bool(torch.equal(*ends))}


def main(arguments: list[str] | None = None) -> None:  # noqa: ARG001
    """Measure all and write."""
    torch.set_num_threads(1)
    rows = [measure(method, keys) for method, keys in CASES]
    for row in rows:
        print(row)
    found = {"rows": rows, **provenance("python -m benchmarks solver_bytes")}
    write_text(OUT, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
