"""How near Algorithm 3 comes to v* in one round, by each of its choices, at one trained model.

    python -m benchmarks.non_iterative_cosine --seeds 20

digits (d = 11,122), 10 sites, i.i.d., 40 % wrong labels; the model of 10 rounds of FedAvg with
γ = 0.1. v* solves (GN + 0.5 I) v = ∇F on all samples, by conjugate gradients. ``cosine`` is that of
v and v*, the mean over 3 draws of the sketches; ``best`` that of the nearest vector in the span of
S₁ᵀ, which no r_2, batch, damping or system can exceed; √(r_1 / d) is what a random subspace gives.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from benchmarks.breast_cancer import provenance
from fedsift.algorithms.outer_gradients import outer_gradients_at
from fedsift.experiment.config import Config
from fedsift.experiment.paper_grid import PINNED
from fedsift.experiment.presets import PAPER_PLAIN
from fedsift.experiment.run import train
from fedsift.experiment.setup import from_config
from fedsift.files import write_text
from fedsift.hypergradient import (
    CurvatureSettings,
    Exact,
    NonIterative,
    Point,
    SolverState,
)
from fedsift.hypergradient.non_iterative import SubspaceSeed
from fedsift.messages import Cohort
from fedsift.randomness import derive

OUT = Path("results/non_iterative_cosine.json")
ROUNDS, DRAWS, DAMPING = 10, 3, 0.5
ROWS: dict[str, tuple[int, int, float, int, str]] = {  # r_1, r_2, δ, samples (0: all), system
    "usual": (16, 32, DAMPING, 16, "least-squares"),
    "64 samples": (16, 32, DAMPING, 64, "least-squares"),
    "all samples": (16, 32, DAMPING, 0, "least-squares"),
    "r2 = r1": (23, 23, DAMPING, 16, "least-squares"),
    "r2 = 4 r1": (11, 44, DAMPING, 16, "least-squares"),
    "damping 0.05": (16, 32, 0.05, 16, "least-squares"),
    "damping 5": (16, 32, 5.0, 16, "least-squares"),
    "galerkin": (16, 16, DAMPING, 16, "galerkin"),
    "64 rows": (64, 128, DAMPING, 16, "least-squares"),
    "64 rows, galerkin, all samples": (64, 64, DAMPING, 0, "galerkin"),
}


def measure(seed: int) -> dict[str, Any]:
    """Return cosines at the model of one seed."""
    keys = {"dataset": "digits", "seed": seed, "rounds": ROUNDS, "eval_every": ROUNDS}
    inner = {"inner_lr": 0.1, "update_rate": 1.0, "model_rate": 1.0}
    y = train(from_config(Config.of(method="fedavg", **keys, **inner).resolve())).state.y
    given = {**PINNED, **PAPER_PLAIN}
    given = {name: value for name, value in given.items() if name not in {"solver_lr", "feedback"}}
    setup = from_config(Config.of(method="non-iter", **keys, **given).resolve())
    cohort = Cohort(setup.federation, tuple(setup.federation.sizes), 1)
    gradient = outer_gradients_at(cohort, setup.server, None, y, 0).gy
    exact = Exact(CurvatureSettings("gauss-newton", DAMPING, 0), tolerance=1e-3, max_iterations=60)
    solved = exact.estimate(cohort, Point(y, gradient, 0), SolverState())[0]
    found: dict[str, Any] = {"clean gradient": {"cosine": _cosine(gradient, solved.v)}}
    for name, (r1, r2, damping, samples, system) in ROWS.items():
        curvature = CurvatureSettings("gauss-newton", damping, samples)
        cosines, best = [], []
        for draw in range(1, DRAWS + 1):
            estimator = NonIterative(r1, r2, curvature, system, seed=seed)
            estimate = estimator.estimate(cohort, Point(y, gradient, draw), SolverState())[0]
            cosines.append(_cosine(estimate.v, solved.v))
            best.append(_best(SubspaceSeed(r1, derive(seed, draw, "tau_1")), solved.v))
        random = math.sqrt(r1 / len(y))
        found[name] = {"cosine": fmean(cosines), "best": fmean(best), "random": random}
    return {"residual of v*": solved.residual, "rows": found}


def _cosine(a: Tensor, b: Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(a, b, dim=0)) if bool(a.any()) else 0.0


def _best(subspace: SubspaceSeed, v: Tensor) -> float:
    """Return the cosine of v with its projection on the span of S_1ᵀ."""
    embedding = subspace.embedding(len(v))
    columns = [embedding.transpose_apply(e) for e in torch.eye(subspace.r1, dtype=v.dtype)]
    basis = torch.linalg.qr(torch.stack(columns, dim=1))[0]
    return float((basis.T @ v).norm() / v.norm())


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.non_iterative_cosine")
    parser.add_argument("--seeds", type=int, nargs="+", default=[20])
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    written: dict[str, Any] = dict(provenance("python -m benchmarks.non_iterative_cosine"))
    written["seeds"] = {str(seed): measure(seed) for seed in options.seeds}
    write_text(options.out, json.dumps(written, indent=1) + "\n")
    print(json.dumps(written["seeds"], indent=1))


if __name__ == "__main__":
    main()
