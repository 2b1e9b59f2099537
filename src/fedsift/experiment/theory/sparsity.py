"""Section 5's remark on sparsity, and Section 4's on few singular values, at trained networks.

    "the gradient ∇q(v) is highly sparse in experiments, whereas the Hessian matrix itself is much
    denser"; "the Hessian matrix has only a few dominant singular values in practice"

Two measurements: the share of the squared norm in the d / rate largest entries of ∇²_yy G v, of
∇q(v), of a column of ∇²_yy G and of all of it, at a network small enough to form its Hessian; and
at the paper's CNN (MNIST, 112,074 parameters) after 1, 5 and 10 rounds the same of products, the
share of the largest single entry (τ of the heavy-hitter assumption), and the stable rank
d E‖Hz‖² / λ_max² by random unit z and Lanczos.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from fedsift.algorithms.outer_gradients import outer_gradients_at
from fedsift.experiment.config import Config
from fedsift.experiment.loop import rounds
from fedsift.experiment.paper_grid import PINNED
from fedsift.experiment.setup import Setup, from_config, from_data, load_data
from fedsift.experiment.theory.checks import Check
from fedsift.hypergradient import CurvatureSettings, Point
from fedsift.hypergradient.exact import conjugate_gradients
from fedsift.hypergradient.products import exact_product
from fedsift.messages import Cohort
from fedsift.problem import FlatModel, LabelledBatch, Reweighting, outer_gradients
from fedsift.problem.curvature import CURVATURES
from fedsift.problem.inputs import whole
from fedsift.problem.largest_curvature import ritz_values
from fedsift.randomness import generator

RATES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
SHOWN = (10, 100, 1000)
DAMPING = 0.5  # of v at the paper's CNN; the Hessian itself is measured without


@dataclass(frozen=True)
class Size:
    """How much is measured.

    The small network is trained for ``training`` rounds and has ``width`` and 2 ``width`` filters;
    its Hessian is that of ``samples`` samples. ``stages`` are rounds of the paper's CNN, if MNIST
    is there, with ``products`` of Lanczos and ``probes`` random directions.
    """

    training: int
    width: int
    samples: int
    stages: tuple[int, ...]
    products: int = 10
    probes: int = 3


SIZES = {
    "quick": Size(5, 2, 100, ()),
    "paper": Size(60, 8, 300, (1, 5, 10)),
}


def measure(scale: str) -> dict[str, Any]:
    """Measure the small network, and the paper's at its stages."""
    size = SIZES[scale]
    small = small_shares(size)
    stages = paper_stages(size) if size.stages else []
    return {
        "rate": list(RATES),
        "small": small,
        "stages": stages,
        "checks": [check.to_json() for check in (*_checks(small), *map(_stage, stages))],
    }


def small_shares(size: Size) -> dict[str, Any]:
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


def paper_setup(rounds_: int, seed: int = 0) -> Setup:
    """Return FedAvg's run on a part of MNIST at the paper's CNN: 2 clients with 100 samples."""
    config = Config.of(
        dataset="mnist",
        method="fedavg",
        model="paper_cnn",
        clients=2,
        samples_per_client=100,
        validation_size=200,
        test_size=500,
        rounds=rounds_,
        eval_every=rounds_,
        inner_lr=0.1,
        seed=seed,
    ).resolve()
    return from_config(config)


def paper_points(setup: Setup, stages: tuple[int, ...]) -> dict[int, tuple[Cohort, Point]]:
    """Return the cohort, and y and ∇_yF after each of the stages."""
    cohort, kept = Cohort(setup.federation, tuple(setup.federation.sizes)), {}
    for done in rounds(setup, setup.initial_state(), 0):
        k = int(done.record["round"])
        if k in stages:
            outer = outer_gradients_at(cohort, setup.server, None, done.state.y, k)
            kept[k] = (cohort, Point(done.state.y, outer.gy, k))
    return kept


def paper_stages(size: Size) -> list[dict[str, Any]]:
    """Return what is measured of the paper's CNN."""
    setup, found = paper_setup(max(size.stages)), []
    for k, (cohort, point) in paper_points(setup, size.stages).items():
        b, kept = point.outer_gradient, [max(1, len(point.y) // rate) for rate in RATES]
        product = partial(_product, cohort, point, CurvatureSettings())
        damped = partial(_product, cohort, point, CurvatureSettings("gauss-newton", DAMPING))
        v, _, _ = conjugate_gradients(damped, b, 0.1, size.products)
        Hv = product(v)
        ritz = ritz_values(product, b, size.products)
        source = generator(0, k, "stable rank")
        probes = [torch.randn(len(b), generator=source) for _ in range(size.probes)]
        squares = [float(product(z / z.norm()).square().sum()) for z in probes]
        largest, gradient = max(abs(float(ritz[0])), abs(float(ritz[-1]))), Hv - b
        found.append(
            {
                "round": k,
                "product": shares(Hv, kept).tolist(),
                "gradient_of_q": shares(gradient, kept).tolist(),
                "tau": float(gradient.square().max() / gradient.square().sum()),
                "largest": float(ritz[-1]),
                "smallest": float(ritz[0]),
                "stable_rank": len(b) * sum(squares) / len(squares) / largest**2,
                "parameters": len(b),
            }
        )
    return found


def _product(cohort: Cohort, point: Point, matrix: CurvatureSettings, v: Tensor) -> Tensor:
    return exact_product(cohort, point, v, matrix)


def _checks(small: dict[str, Any]) -> list[Check]:
    names = {"product": "∇²G v", "gradient_of_q": "∇q(v)", "column": "a column", "matrix": "∇²G"}
    checks = []
    for rate in SHOWN:
        at = RATES.index(rate)
        seen = ", ".join(f"{name} {100 * small[key][at]:.3g} %" for key, name in names.items())
        claim = f"∇q is sparse, the Hessian denser: squared norm in d / {rate}, small network"
        holds = small["gradient_of_q"][at] > small["matrix"][at]
        checks.append(Check(claim, "more of ∇q(v) than of all of ∇²G", seen, holds))
    where = "small network"
    return [*checks, _rank(where, small, f"stable rank {small['stable_rank']:.1f}")]


def _stage(stage: dict[str, Any]) -> Check:
    at = RATES.index(100)
    product, gradient = (100 * stage[key][at] for key in ("product", "gradient_of_q"))
    seen = (
        f"stable rank {stage['stable_rank']:.1f}; d / 100 entries hold {product:.0f} % of ∇²G v, "
        f"{gradient:.0f} % of ∇q(v); largest entry τ = {stage['tau']:.4f}"
    )
    return _rank(f"the paper's CNN after round {stage['round']}", stage, seen)


def _rank(where: str, found: dict[str, Any], seen: str) -> Check:
    d, rank = found["parameters"], found["stable_rank"]
    return Check(
        f"few singular values dominate, {where}", f"far below d = {d}", seen, rank < d / 20
    )
