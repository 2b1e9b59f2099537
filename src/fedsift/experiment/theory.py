"""What the paper proves and observes of the two estimators, measured.

Theorem 1     ‖v_I − v*‖² = O(1/I) for Algorithm 2 with compression, step 8/(μ(i + a)); on
              quadratic federations in which ∇q has heavy hitters, as the theorem assumes.
Theorem 2     ‖S_1ᵀω̂ − v*‖ ≤ ε‖v*‖ with r_1 = O(ε⁻²) and r_2 = r_1²: a slope of −½ in r_1.
Section 5     "the gradient ∇q(v) is highly sparse in experiments, whereas the Hessian matrix
              itself is much denser": the share of the squared norm that is in the k largest
              entries of ∇²_yy G v, of ∇q(v), of a column of ∇²_yy G and of all of it, at a trained
              network small enough to form its Hessian.

All errors are relative: ‖v − v*‖ / ‖v*‖.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from fedsift.compress import Compressor, CountSketch, SparseEmbedding, TopK, feedback_for
from fedsift.experiment.config import Config
from fedsift.experiment.loop import rounds
from fedsift.experiment.paper_grid import PINNED
from fedsift.experiment.run import versions
from fedsift.experiment.setup import Setup, from_data, load_data
from fedsift.federation import LocalFederation
from fedsift.files import write_text
from fedsift.hypergradient import Estimator, Iterative, NonIterative, Point, SolverState, Theorem
from fedsift.messages import Cohort
from fedsift.problem import (
    FlatModel,
    LabelledBatch,
    Reweighting,
    mean_client,
    outer_gradients,
    random_quadratic,
)
from fedsift.problem.curvature import CURVATURES
from fedsift.problem.inputs import whole
from fedsift.randomness import derive, generator

MU, SHIFT = 1.0, 100.0  # the quadratics' smallest eigenvalue, and a of Theorem 1
RATES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
COMPRESSORS: dict[str, Callable[[int, int], Compressor]] = {
    "topk": lambda d, _: TopK(d, d // 50),
    "count-sketch": lambda d, seed: CountSketch(d, 5, d // 12, seed),
}


@dataclass(frozen=True)
class Size:
    """How much is measured: ``draws`` are independent problems, or sketches of one.

    The network is trained for ``training`` rounds and has ``width`` and 2 ``width`` filters; its
    Hessian is that of ``samples`` samples.
    """

    draws: int
    iterations: tuple[int, ...]
    r1: tuple[int, ...]
    training: int
    width: int
    samples: int


SIZES = {
    "quick": Size(3, (40, 80), (6, 24, 96), training=5, width=2, samples=100),
    "paper": Size(5, (40, 80, 160, 320), (6, 12, 24, 48, 96, 192), 60, width=8, samples=300),
}


def write_theory(path: Path, scale: str) -> dict[str, Any]:
    """Measure all and write it to a file."""
    size, start = SIZES[scale], time.perf_counter()
    measured = {
        "iterative": {name: iterative_errors(name, size) for name in COMPRESSORS},
        "non_iterative": non_iterative_errors(size),
        "sparsity": sparsity(size),
        "seconds": round(time.perf_counter() - start, 1),
        "versions": versions(),
    }
    write_text(path, json.dumps(measured, indent=1) + "\n")
    return measured


def iterative_errors(name: str, size: Size, length: int = 400) -> dict[str, Any]:
    """Return the median squared error of Algorithm 2 after I iterations, and its slope."""
    errors = []
    for count in size.iterations:
        drawn = []
        for seed in range(size.draws):
            compressor = COMPRESSORS[name](length, seed)
            solver = Iterative(feedback_for(compressor), count, Theorem(MU, SHIFT), seed=seed)
            case = _Case.of(length=length, heavy=8, clients=2, seed=seed)
            drawn.append(case.error(solver) ** 2)
        errors.append(drawn)
    return _series("iterations", size.iterations, errors)


def non_iterative_errors(size: Size, length: int = 60) -> dict[str, Any]:
    """Return the median error of Algorithm 3 with r_1 columns and r_2 = r_1², and its slope.

    ``floor`` is the distance of v* from the span of S_1ᵀ: no ω̂ can do better.
    """
    case = _Case.of(length=length, condition=3.0, clients=2)
    draws = range(size.draws)
    errors = [[case.error(NonIterative(r, r * r, seed=s)) for s in draws] for r in size.r1]
    # The embeddings that NonIterative draws in round 0.
    S1 = [[SparseEmbedding(r, length, derive(s, 0, "tau_1")) for s in draws] for r in size.r1]
    floor = [median(_distance(case.v, drawn) for drawn in same) for same in S1]
    return {**_series("r1", size.r1, errors), "floor": floor}


def sparsity(size: Size) -> dict[str, Any]:
    """Return shares of the squared norm in the d / rate largest entries, and the stable rank."""
    config = Config.of(
        method="iter-sketch",
        rounds=size.training,
        eval_every=size.training,
        head_start=0,
        bootstrap=0.0,  # the problem of the theorems
        **PINNED,
    ).resolve()
    setup = from_data(config, load_data(config), small_network(config.seed, size.width))
    *_, last = rounds(setup, setup.initial_state(), 0)
    assert last.state.solver.v is not None
    H, b = _hessian(setup, last.state.y, size.samples)
    product = H @ last.state.solver.v.double()
    kept = [max(1, len(b) // rate) for rate in RATES]
    columns = [shares(column, kept) for column in H.T if bool(column.any())]
    singular = torch.linalg.eigvalsh(H).abs()
    return {
        "parameters": len(b),
        "test_accuracy": last.record["test_accuracy"],
        "rate": list(RATES),
        "product": shares(product, kept).tolist(),
        "gradient_of_q": shares(product - b, kept).tolist(),
        "column": torch.stack(columns).mean(0).tolist(),
        "matrix": shares(H.flatten(), kept).tolist(),
        "stable_rank": float(singular.square().sum() / singular.max() ** 2),
    }


def shares(values: Tensor, counts: list[int]) -> Tensor:
    """Return how much of the squared norm is in the largest entries, for each count."""
    squares = values.square().sort(descending=True).values[: max(counts)]
    within = squares.cumsum(0) / values.square().sum()
    return within[torch.tensor(counts) - 1]


def small_network(seed: int, width: int) -> nn.Module:
    """Return a CNN for 8x8 images, with 1,898 parameters at width 8."""
    with torch.device("meta"):
        net = nn.Sequential(
            *(nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(8 * width, 10)),
        )
    net.to_empty(device="cpu")
    source = generator(seed, "small network")
    with torch.no_grad():
        for part in net.parameters():
            fan_in = math.prod(part.shape[1:])
            part.normal_(0.0, fan_in**-0.5, generator=source) if part.ndim > 1 else part.zero_()
    return net


def _hessian(setup: Setup, y: Tensor, samples: int) -> tuple[Tensor, Tensor]:
    """Return ∇²_yy G over samples drawn from all clients, and ∇_y F, in float64."""
    model = FlatModel(setup.model.to_module(y).double())
    problem = Reweighting(model, setup.config.l2)
    clients = setup.data.clients
    inputs, labels = (torch.cat([getattr(c, k) for c in clients]) for k in ("inputs", "labels"))
    weights = torch.cat([setup.weights(m) for m in setup.federation.sizes]).double()
    drawn = torch.randperm(len(labels), generator=generator(setup.config.seed, "theory"))[:samples]
    batch = LabelledBatch.of(inputs[drawn].double(), labels[drawn])
    point = (weights[drawn], model.initial())
    operator = CURVATURES["hessian"].repeated(problem, *point, batch, 0.0)
    units = torch.eye(model.length, dtype=torch.float64)
    H = torch.stack([operator.product(unit) for unit in units])
    clean, right = setup.data.validation
    return 0.5 * (H + H.T), outer_gradients(
        problem, *point, LabelledBatch.of(whole(clean).double(), right)
    )[1]


@dataclass(frozen=True)
class _Case:
    """A quadratic federation, a point off its inner solution, and v* there."""

    cohort: Cohort
    point: Point
    v: Tensor

    @classmethod
    def of(cls, **sizes: Any) -> _Case:
        problem, clients = random_quadratic(**sizes)
        federation = LocalFederation.of(problem, clients)
        y = torch.zeros_like(problem.target)
        point = Point(y, y - problem.target, 0, problem.initial_x(None))
        exact = problem.v_solution(mean_client(clients), y)
        return cls(Cohort(federation, tuple(federation.sizes)), point, exact)

    def error(self, solver: Estimator) -> float:
        v = solver.estimate(self.cohort, self.point, SolverState())[0].v
        return float((v - self.v).norm() / self.v.norm())


def _distance(v: Tensor, embedding: SparseEmbedding) -> float:
    """Return ‖v − its projection on the span of S_1ᵀ‖ / ‖v‖."""
    basis = embedding.dense().to(v).T
    nearest = basis @ torch.linalg.lstsq(basis, v, driver="gelsd").solution
    return float((v - nearest).norm() / v.norm())


def _series(name: str, at: tuple[int, ...], errors: list[list[float]]) -> dict[str, Any]:
    middle = [median(drawn) for drawn in errors]
    logs = torch.tensor([at, middle], dtype=torch.float64).log()
    centred = logs - logs.mean(dim=1, keepdim=True)
    slope = float((centred[0] * centred[1]).sum() / centred[0].square().sum())
    found: Mapping[str, Any] = {
        name: list(at),
        "median": middle,
        "lowest": [min(drawn) for drawn in errors],
        "highest": [max(drawn) for drawn in errors],
        "slope": slope,
    }
    return dict(found)
