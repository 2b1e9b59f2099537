"""Which error feedback, and which solver step, by residual and by what they find.

    python -m benchmarks.solver_forms                       all cells that are not there yet
    python -m benchmarks.solver_forms --methods iter-topk --forms ef21 --factors 0.25 --seeds 20

digits, 10 sites, 40 rounds, rate 20, both splits, seeds 20 to 22 of development. `iter-*` have the
paper's plain keys (no decay, pull, head start or bootstrap) and one iteration per round, or five in
`iter-topk+5`; `single-loop` has those and, as `single-loop+aids`, its defaults. The inner step is
pinned at γ = 0.1 with δ = 0.5, and α = f γ for the factors f of the table. ``residual`` is the
median over rounds 11 to 40 of that of the v in use, by the independent sketch; ``unused`` the share
of these rounds in which it was 1 or more.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.breast_cancer import provenance
from fedsift.compress import FORMS
from fedsift.errors import RunError
from fedsift.experiment.config import Config
from fedsift.experiment.presets import PAPER_PLAIN
from fedsift.experiment.run import train
from fedsift.experiment.setup import from_config
from fedsift.files import write_text

OUT = Path("results/solver_forms.json")
METHODS = ("iter-topk", "iter-topk+5", "iter-sketch", "single-loop", "single-loop+aids")
FACTORS = (1.0, 0.25, 0.05)
ROUNDS, SETTLED, INNER = 40, 10, 0.1


def measure(method: str, form: str, factor: float, split: str, seed: int) -> dict[str, Any]:
    """Run one cell; a run that ends early has no figures but its reason."""
    name, _, extra = method.partition("+")
    keys: dict[str, Any] = {"dataset": "digits", "split": split, "method": name, "seed": seed}
    keys |= {"rounds": ROUNDS, "eval_every": ROUNDS}
    keys |= {"inner_lr": INNER, "damping": 0.05 / INNER, "solver_lr": factor * INNER}
    keys |= {} if extra == "aids" else {**PAPER_PLAIN, "weight_mean": 0.9}
    keys |= {"iterations": int(extra)} if extra.isdigit() else {}
    keys["feedback"] = form
    try:
        done = train(from_config(Config.of(**keys).resolve()))
    except RunError as error:
        return {"failed": str(error)}
    late = [record["residual"] for record in done.rounds[SETTLED:]]
    found = {
        key: done.summary[key] for key in ("test_accuracy", "weights_f1", "weights_auc", "bytes_up")
    }
    resets = sum("diverged" in said for record in done.rounds for said in record["events"])
    unused = sum(residual >= 1.0 for residual in late) / len(late)
    return {**found, "residual": median(late), "unused": unused, "resets": resets}


def run(
    methods: Sequence[str],
    forms: Sequence[str],
    factors: Sequence[float],
    seeds: Sequence[int],
    out: Path,
) -> None:
    """Measure all cells that the file lacks, and add them one by one."""
    written = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {"cells": {}}
    written |= provenance("python -m benchmarks.solver_forms")
    grid = [
        (method, form, factor, split, seed)
        for seed in seeds
        for split in ("iid", "non-iid")
        for method in methods
        for factor in factors
        for form in forms
    ]
    for cell in grid:
        name = " ".join(map(str, cell))
        if name not in written["cells"]:
            written["cells"][name] = measure(*cell)
            write_text(out, json.dumps(written, indent=1) + "\n")
            print(name, written["cells"][name], file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.solver_forms")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--factors", type=float, nargs="+", default=list(FACTORS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[20, 21, 22])
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    run(options.methods, options.forms, options.factors, options.seeds, options.out)


if __name__ == "__main__":
    main()
