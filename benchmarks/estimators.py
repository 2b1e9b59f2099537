"""Error of every estimator of the hypergradient against bytes and exchanges.

    python -m benchmarks estimators                      all cells that are not there yet
    python -m benchmarks estimators --systems "condition 1000" --seeds 0

A cell is a system, a seed and an estimator at growing sizes (iterations, terms, rank, rows):
results/estimators/SYSTEM-SEED.json. Bytes are up and down, of two clients together, for one
estimate from v = 0; the error is ‖v − v*‖ / ‖v*‖. Rate 20 wherever something is compressed.

| system           | what it is                                                                 |
|------------------|----------------------------------------------------------------------------|
| quadratics       | d = 1,000, float64, of ``problem/shaped_quadratic.py``; v* by a dense solve   |
| mnist, round k   | the paper's CNN (112,074 parameters), 2 clients with 100 samples, 40 % of   |
|                  | labels wrong, FedAvg's model after k rounds; Gauss-Newton matrix, damping   |
|                  | 0.5; v* by conjugate gradients to a residual of 1e-4                       |

Algorithm 2 is run with the steps f / L, f = 1 and 1/5 (for sketches n / (n + d) of
them), and each point is the better of the two: no form loses by its step. Nyström sends whole
columns and has no compressed form; Galerkin needs a Gauss-Newton matrix, which quadratics lack.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.breast_cancer import provenance
from fedsift.algorithms.outer_gradients import outer_gradients_at
from fedsift.compress import FORMS, Compressor, CountSketch, Identity, TopK, feedback_for
from fedsift.experiment.config import Config
from fedsift.experiment.loop import rounds
from fedsift.experiment.setup import from_config
from fedsift.experiment.theory.watch import Watch
from fedsift.federation import LocalFederation
from fedsift.files import write_text
from fedsift.hypergradient import (
    Constant,
    CurvatureSettings,
    Estimator,
    Exact,
    Iterative,
    NonIterative,
    Point,
    SolverState,
)
from fedsift.hypergradient.nystrom import Nystrom
from fedsift.hypergradient.products import exact_product
from fedsift.hypergradient.series import Conjugate, Neumann, Series
from fedsift.messages import Cohort, Federation, Traffic
from fedsift.problem import mean_client
from fedsift.problem.largest_curvature import ritz_values
from fedsift.problem.shaped_quadratic import Shape, shaped_quadratic

OUT = Path("results/estimators")
D, RATE, ROWS = 1000, 20, 5
QUADRATICS = {
    "condition 10": Shape(D, 10.0),
    "condition 1000": Shape(D, 1000.0),
    "stable rank 3": Shape(D, 100.0, stable_rank=3.0),
    "stable rank 100": Shape(D, 100.0, stable_rank=100.0),
    "sparse, condition 10": Shape(D, 10.0, mixing=0.03, decay=1.5),
    "sparse, condition 1000": Shape(D, 1000.0, mixing=0.03, decay=1.5),
}
STAGES = (1, 10, 40)
SYSTEMS = (*QUADRATICS, *(f"mnist, round {k}" for k in STAGES))
FACTORS = (1.0, 0.2)
COMPRESSORS = ("topk", "count-sketch")
ESTIMATORS = (
    *(f"iter {name}, {form}" for name in COMPRESSORS for form in FORMS),
    *("non-iter least-squares", "non-iter galerkin", "nystrom"),
    *(f"{rule}{name}" for rule in ("cg", "neumann") for name in ("", " topk", " count-sketch")),
    "exact",
)
TURNS = count(1)  # clients keep errors by epoch: every measurement begins with one of its own


@dataclass(frozen=True)
class System:
    """A linear system at a cohort, its largest eigenvalue, its solution, the sizes to try."""

    cohort: Cohort
    point: Point
    curvature: CurvatureSettings
    largest: float
    solution: Tensor
    sizes: tuple[int, ...]

    @classmethod
    def of(
        cls,
        cohort: Cohort,
        point: Point,
        curvature: CurvatureSettings,
        v: Tensor,
        sizes: tuple[int, ...],
    ) -> System:
        """Find its largest eigenvalue."""
        ritz = ritz_values(
            lambda u: exact_product(cohort, point, u, curvature), point.outer_gradient, 24
        )
        return cls(cohort, point, curvature, float(ritz[-1]), v, sizes)

    def fresh(self) -> Point:
        """Return the point as that of another round: a series numbers its epochs by rounds."""
        return replace(self.point, round=1000 * next(TURNS))

    def row(self, size: int, v: Tensor, used: Traffic) -> dict[str, Any]:
        """Return one point of a curve."""
        error = float((v - self.solution).norm() / self.solution.norm())
        total = used.bytes_up + used.bytes_down
        return {"size": size, "error": error, "bytes": total, "exchanges": used.exchanges}


def compressor(name: str, length: int, seed: int) -> Compressor:
    """Return a compressor of d / 20 numbers, or none."""
    if name == "topk":
        return TopK(length, max(1, length // RATE))
    if name == "count-sketch":
        return CountSketch.at_rate(length, RATE, ROWS, seed)
    return Identity(length)


def estimator(name: str, system: System, size: int, seed: int) -> Estimator:
    """Return an estimator that is no iteration of Algorithm 2, at a size."""
    kind, _, form = name.partition(" ")
    shared: dict[str, Any] = {"curvature": system.curvature, "seed": seed}
    d = len(system.solution)
    if kind == "non-iter":
        return NonIterative(
            size, size * (2 if form == "least-squares" else 1), system=form, **shared
        )
    if kind == "nystrom":
        return Nystrom(size, **shared)
    if kind == "exact":
        return Exact(system.curvature, tolerance=1e-4)
    rule = Conjugate() if kind == "cg" else Neumann(1.0 / system.largest)
    return Series(compressor(form, d, seed), rule, size, **shared)


def curve(name: str, system: System, seed: int) -> list[dict[str, Any]]:
    """Return error, bytes and exchanges at growing sizes."""
    if name.startswith("iter"):
        return iterative(name.removeprefix("iter "), system, seed)
    rows, federation = [], system.cohort.federation
    for size in system.sizes if name != "exact" else (0,):
        before = federation.traffic
        made = estimator(name, system, size, seed)
        v = made.estimate(system.cohort, system.fresh(), SolverState())[0].v
        rows.append(system.row(size, v, federation.traffic - before))
    return rows


def iterative(name: str, system: System, seed: int) -> list[dict[str, Any]]:
    """Return the better of two steps, each by one run: v_n has cost n exchanges."""
    kind, form = name.split(", ")
    feedback = feedback_for(compressor(kind, len(system.solution), seed), form)
    best: dict[int, dict[str, Any]] = {}
    for factor in FACTORS:
        federation = system.cohort.federation
        watch, before = Watch(federation=federation), federation.traffic
        step = factor * feedback.step_share / system.largest
        solver = Iterative(
            feedback,
            max(system.sizes) + 1,
            Constant(step),
            system.curvature,
            warm_start=False,
            guard=watch,
            seed=seed,
        )
        solver.estimate(system.cohort, system.point, SolverState(epoch=next(TURNS)))
        for size in system.sizes:
            if size <= len(watch.seen):  # else it diverged
                v = watch.seen[size - 2] if size > 1 else step * system.point.outer_gradient
                row = system.row(size, v, watch.traffic[size - 1] - before) | {"factor": factor}
                if size not in best or row["error"] < best[size]["error"]:
                    best[size] = row
    return [best[size] for size in sorted(best)]


def quadratic(name: str, seed: int) -> System:
    """Draw a quadratic."""
    problem, clients = shaped_quadratic(QUADRATICS[name], seed)
    federation = LocalFederation.of(problem, clients)
    y = torch.zeros_like(problem.target)
    point = Point(y, y - problem.target, 0, problem.initial_x(None))
    cohort = Cohort(federation, tuple(federation.sizes))
    v = problem.v_solution(mean_client(clients), y)
    return System.of(cohort, point, CurvatureSettings(), v, (1, 2, 4, 8, 16, 32))


@cache
def trained(seed: int) -> dict[int, tuple[Federation, Cohort, Point]]:
    """Train the paper's CNN and keep where it was at the stages."""
    config = Config.of(
        dataset="mnist",
        method="fedavg",
        model="paper_cnn",
        clients=2,
        samples_per_client=100,
        validation_size=200,
        test_size=500,
        rounds=max(STAGES),
        eval_every=max(STAGES),
        batch_size=64,
        inner_lr=0.1,
        seed=seed,
    ).resolve()
    setup = from_config(config)
    cohort, kept = Cohort(setup.federation, tuple(setup.federation.sizes)), {}
    for done in rounds(setup, setup.initial_state(), 0):
        k = int(done.record["round"])
        if k in STAGES:
            outer = outer_gradients_at(cohort, setup.server, None, done.state.y, k)
            kept[k] = (setup.federation, cohort, Point(done.state.y, outer.gy, k))
    return kept


def network(name: str, seed: int) -> System:
    """Return the system of a network at a stage."""
    _, cohort, point = trained(seed)[int(name.rsplit(" ", 1)[1])]
    matrix = CurvatureSettings("gauss-newton", damping=0.5)
    reference = Exact(matrix, tolerance=1e-4, max_iterations=60)
    v = reference.estimate(cohort, point, SolverState())[0].v
    return System.of(cohort, point, matrix, v, (1, 2, 4, 8, 16))


def cells(systems: Sequence[str], seeds: Sequence[int]) -> Iterator[tuple[str, int]]:
    """Yield what there is to measure; networks with the first seed alone."""
    for seed in seeds:
        for name in systems:
            if name in QUADRATICS or seed == seeds[0]:
                yield name, seed


def path_of(out: Path, name: str, seed: int) -> Path:
    """Return the file of a system and a seed."""
    return out / f"{name.replace(', ', '-').replace(' ', '-')}-s{seed}.json"


def run(systems: Sequence[str], seeds: Sequence[int], out: Path) -> None:
    """Measure all cells that the files lack, and add them one by one."""
    for name, seed in cells(systems, seeds):
        path = path_of(out, name, seed)
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        wanted = [one for one in ESTIMATORS if name not in QUADRATICS or "galerkin" not in one]
        missing = [one for one in wanted if one not in found.get("curves", {})]
        if not missing:
            continue
        system = quadratic(name, seed) if name in QUADRATICS else network(name, seed)
        found |= {"system": name, "seed": seed, "largest": system.largest}
        found |= {"length": len(system.solution), **provenance("python -m benchmarks estimators")}
        for one in missing:
            found.setdefault("curves", {})[one] = curve(one, system, seed)
            write_text(path, json.dumps(found, indent=1) + "\n")
            print(name, seed, one, found["curves"][one][-1:], file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks estimators")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    run(options.systems, options.seeds, options.out)


if __name__ == "__main__":
    main()
