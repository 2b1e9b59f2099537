"""What limits Algorithm 3, the non-iterative method: one of its choices changed at a time.

    python -m benchmarks.non_iterative                      all cells that are not there yet
    python -m benchmarks.non_iterative --rows usual galerkin --seeds 20

digits (d = 11,122), 10 sites, i.i.d., 40 % wrong labels, 40 rounds, the paper's plain keys, rate 20
(r_1 = 16, r_2 = 32), γ = 0.1, seeds 20 to 22 of development. ``f1`` is of the weights at rounds 10,
20, 30 and 40; ``residual`` the median over rounds 11 to 40 of ‖Hv − ∇F‖ / ‖∇F‖ of the v in use, by
the independent sketch, and ``unused`` the share of these rounds in which no v was used. Usual are
r_2 = 2 r_1, 16 samples for the products, δ = 0.5, fresh sketches. Controls:

| row            | v is                                                                            |
|----------------|---------------------------------------------------------------------------------|
| `no-hessian`   | the whole clean gradient; no sketch, no curvature                               |
| `no-curvature` | by δ = 500, the clean gradient as far as the r_1 rows show it                   |
| `iter-topk`    | Algorithm 2's, at the same rate                                                 |
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.breast_cancer import provenance
from fedsift.errors import RunError
from fedsift.experiment.config import Config, read_by
from fedsift.experiment.paper_grid import PINNED
from fedsift.experiment.presets import PAPER_PLAIN
from fedsift.experiment.run import train
from fedsift.experiment.setup import from_config
from fedsift.files import write_text

OUT = Path("results/non_iterative.json")
ROUNDS, EVERY, SETTLED = 40, 10, 10
USUAL: Mapping[str, Any] = {"method": "non-iter", "curvature_batch": 16}
ROWS: dict[str, Mapping[str, Any]] = {
    "usual": {},
    "64 samples": {"curvature_batch": 64},
    "128 samples": {"curvature_batch": 128},
    "r2 = r1": {"r1": 23, "r2": 23},
    "r2 = 4 r1": {"r1": 11, "r2": 44},
    "damping 0.05": {"damping": 0.05},
    "damping 5": {"damping": 5.0},
    "galerkin": {"system": "galerkin"},
    "same sketch": {"fresh_seeds": False},
    "outer step 0.03": {"outer_lr": 0.03},
    "outer step 0.3": {"outer_lr": 0.3},
    "mean of weights": {"weight_mean": 0.9},
    "64 rows": {"r1": 64},
    "256 rows": {"r1": 256},
    "no-curvature": {"damping": 500.0},
    "no-hessian": {"method": "no-hessian"},
    "iter-topk": {"method": "iter-topk"},
}


def measure(row: str, seed: int) -> dict[str, Any]:
    """Run one cell; a run that ends early has no figures but its reason."""
    keys: dict[str, Any] = {"dataset": "digits", "seed": seed, "rate": 20.0}
    keys |= {"rounds": ROUNDS, "eval_every": EVERY, **PINNED, **PAPER_PLAIN, **USUAL, **ROWS[row]}
    config = Config.of(method=keys["method"], **read_by(keys.pop("method"), keys))
    try:
        done = train(from_config(config.resolve()))
    except RunError as error:
        return {"failed": str(error)}
    seen = [record["residual"] for record in done.rounds[SETTLED:] if "residual" in record]
    late = [1.0 if residual is None else residual for residual in seen]
    f1 = [record["weights_f1"] for record in done.rounds if "weights_f1" in record]
    found = {key: done.summary[key] for key in ("test_accuracy", "weights_auc", "bytes_up")}
    unused = sum(residual >= 1.0 for residual in late) / len(late) if late else None
    return {**found, "f1": f1, "residual": median(late) if late else None, "unused": unused}


def run(rows: Sequence[str], seeds: Sequence[int], out: Path) -> None:
    """Measure all cells that the file lacks, and add them one by one."""
    written = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {"cells": {}}
    written |= provenance("python -m benchmarks.non_iterative")
    for row, seed in [(row, seed) for seed in seeds for row in rows]:
        name = f"{row} {seed}"
        if name not in written["cells"]:
            written["cells"][name] = measure(row, seed)
            write_text(out, json.dumps(written, indent=1) + "\n")
            print(name, written["cells"][name], file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.non_iterative")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[20, 21, 22])
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    run(options.rows, options.seeds, options.out)


if __name__ == "__main__":
    main()
