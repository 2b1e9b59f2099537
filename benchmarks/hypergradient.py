"""The hypergradient of sample weights, here and by others, with 10 products each.

    ∇h(x) = −∇²_xy G v,     (∇²_yy G + δI) v = ∇_y F

Central hyper-cleaning on MNIST with 40 % wrong training labels: softmax regression on 5,000
training and 5,000 validation samples, and the paper's CNN on 256 of each, because every side keeps
a graph of the whole batch. Without FEDSIFT_DATA the images are random. All sides call the same
loss function at the same y, and damp alike:

    fedsift     conjugate gradients on the Hessian: linearised (``repeated``) or by ``torch.func``
                (``once``), both with ``cross_product``; or one kept graph for all (``graph``)
    plain loop  the graph of the gradient, conjugate gradients by ``torch.autograd.grad``, the cross
                product from the same graph: what hypertorch does, written out
    TorchOpt    ``custom_root`` with ``solve_cg``; δ is its ridge
    Betty       ``get_grads`` with its Neumann series; it has no damping, so its inner loss gets
                δ/2 ‖y − y₀‖², whose Hessian is the same

Errors are relative to a float64 solution. TorchOpt must agree with fedsift, Betty with the same
Neumann series on fedsift's operator, or the benchmark stops. The error of Betty's own conjugate
gradients stands beside: they update the direction with the old residual.
"""

from __future__ import annotations

import importlib.util
import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.timing import cpu_seconds as seconds
from fedsift.data import available, build
from fedsift.errors import RunError
from fedsift.hypergradient.estimate import relative
from fedsift.hypergradient.exact import conjugate_gradients
from fedsift.problem import (
    FlatModel,
    LabelledBatch,
    Reweighting,
    cross_product,
    inner_gradient,
    outer_gradients,
)
from fedsift.problem.curvature import Operator, Shifted, hessian_once, hessian_repeated
from fedsift.problem.gradient_graph import GradientGraph
from fedsift.problem.networks import build_model
from fedsift.randomness import generator

PRODUCTS, REPEATS, NOISE, SHAPE = 10, 3, 0.4, (1, 28, 28)
Hypergradient = Callable[[], Tensor]


@dataclass(frozen=True)
class Scale:
    """A model, how many samples it gets, its training step and the damping δ."""

    model: str
    samples: int
    lr: float
    damping: float
    part: int = 0  # samples that a kept graph takes at once; 0: all


SCALES = {
    "linear": Scale("linear", 5000, lr=0.05, damping=0.5),
    # The Hessian of the network has eigenvalues below -2, and conjugate gradients need a positive
    # definite matrix.
    "cnn": Scale("paper_cnn", 256, lr=0.005, damping=5.0, part=64),
}


@dataclass(frozen=True)
class Case:
    """A point (x, y) of the problem, its samples, δ, and the step α of a Neumann series."""

    problem: Reweighting
    x: Tensor
    y: Tensor
    train: LabelledBatch
    validation: LabelledBatch
    damping: float
    step: float = 0.0
    part: int = 0

    def hessian(self, make: str) -> Operator:
        """Return ∇²_yy G + δI."""
        makes = {"once": hessian_once, "repeated": hessian_repeated}
        return makes[make](self.problem, self.x, self.y, self.train, self.damping)

    def double(self) -> Case:
        """Return the same point in float64."""
        model = FlatModel(self.problem.model.to_module(self.y).double())
        problem = Reweighting(model, self.problem.l2)
        parts = (_double(self.train), _double(self.validation), self.damping)
        return Case(problem, self.x.double(), model.initial(), *parts)


Solve = Callable[[Case, Operator, Tensor], Tensor]


def measure() -> dict[str, float]:
    """Compare times and errors on both models."""
    found = [name for name in ("torchopt", "betty") if importlib.util.find_spec(name) is not None]
    for name in {"torchopt", "betty"} - set(found):
        print(f"  {name} is left out: it is not installed")
    out: dict[str, float] = {}
    for name, scale in SCALES.items():
        out |= {f"{key}_{name}": value for key, value in compare(make_case(scale), found).items()}
    return out


def compare(case: Case, peers: Sequence[str]) -> dict[str, float]:
    """Return errors, and times over fedsift's."""
    ours = {make: partial(fedsift, case, make, _cg) for make in ("once", "repeated")}
    ours["graph"] = partial(by_graph, case)
    theirs = {"plain_loop": partial(plain_loop, case), **{n: PEERS[n](case) for n in peers}}
    truth, answers = reference(case), {name: side() for name, side in theirs.items()}
    answers["fedsift"] = ours["repeated"]()
    for make in ("once", "graph"):
        _check_equal(f"{make} and repeated", ours[make](), answers["fedsift"])
    _check_equal("the plain loop and fedsift", answers["plain_loop"], answers["fedsift"])
    if "torchopt" in peers:
        _check_equal("TorchOpt and fedsift", answers["torchopt"], answers["fedsift"])
    if "betty" in peers:
        _check_equal("Betty and fedsift", answers["betty"], fedsift(case, "once", _neumann))
        answers["betty_cg"] = betty_side(case, "cg")()
    out = {f"hypergradient_error_{k}": relative(g - truth, truth) for k, g in answers.items()}
    sides = {**ours, **theirs}
    times = [{name: seconds(side) for name, side in sides.items()} for _ in range(REPEATS)]
    for peer, make in itertools.product(theirs, ours):
        ratios = sorted(t[peer] / t[make] for t in times)
        out[f"{peer}_time_over_fedsift_{make}"] = median(ratios)
        if make == "graph":
            out[f"{peer}_time_over_fedsift_graph_low"] = ratios[0]
            out[f"{peer}_time_over_fedsift_graph_high"] = ratios[-1]
    return out


def make_case(scale: Scale) -> Case:
    """Train on noisy labels for a while, all weights 1, and stop there."""
    train, validation = _samples(scale.samples)
    problem = Reweighting(FlatModel(build_model(scale.model, SHAPE, 10, seed=0)))
    x, y = problem.initial_x(train), problem.model.initial()
    for _ in range(30):
        y = y - scale.lr * inner_gradient(problem, x, y, train)
    case = Case(problem, x, y, train, validation, scale.damping, part=scale.part)
    v, operator = torch.randn(len(y), generator=generator(0, "power")), case.hessian("repeated")
    for _ in range(20):
        v = operator.product(v / v.norm())
    return replace(case, step=0.9 / float(v.norm()))


def fedsift(case: Case, make: str, solve: Solve) -> Tensor:
    """Return ∇h by one Hessian, a solver and one cross product."""
    gradient = outer_gradients(case.problem, case.x, case.y, case.validation)[1]
    v = solve(case, case.hessian(make), gradient)
    return -cross_product(case.problem, case.x, case.y, case.train, v)


def by_graph(case: Case) -> Tensor:
    """Return ∇h by one graph of the inner gradient."""
    gradient = outer_gradients(case.problem, case.x, case.y, case.validation)[1]
    graph = GradientGraph.at(case.problem, case.x, case.y, case.train, case.part)
    v = _cg(case, Shifted(graph.product, case.damping), gradient)
    return -graph.cross(v)


def plain_loop(case: Case) -> Tensor:
    """Return ∇h by ordinary autograd and nothing else: the peer to beat."""
    x, y = case.x.clone().requires_grad_(True), case.y.clone().requires_grad_(True)
    outer = case.problem.outer_loss(x, y, case.validation)
    (r,) = torch.autograd.grad(outer, y)
    inner = case.problem.inner_loss(x, y, case.train)
    (gradient,) = torch.autograd.grad(inner, y, create_graph=True)
    v, p, rr = torch.zeros_like(r), r, r @ r
    for _ in range(PRODUCTS):
        (product,) = torch.autograd.grad(gradient, y, p, retain_graph=True)
        product = product + case.damping * p
        alpha = rr / (p @ product)
        v, r = v + alpha * p, r - alpha * product
        rr, last = r @ r, rr
        p = r + rr / last * p
    return -torch.autograd.grad(gradient, x, v)[0]


def reference(case: Case) -> Tensor:
    """Return ∇h in float64 by conjugate gradients that converge."""
    converged = partial(_cg, steps=500, tolerance=1e-6)
    return fedsift(case.double(), "repeated", converged).float()


def _cg(
    case: Case,  # noqa: ARG001 - the Neumann series needs it
    operator: Operator,
    b: Tensor,
    steps: int = PRODUCTS,
    tolerance: float = 0.0,
) -> Tensor:
    v, done, advice = conjugate_gradients(operator.product, b, tolerance, steps)
    if advice is not None and (done < steps or tolerance > 0):
        raise RunError(f"the damped system was not solved: {advice}")
    return v


def _neumann(case: Case, operator: Operator, b: Tensor) -> Tensor:
    """Return α Σ_i (I − αA)^i b, i = 0..PRODUCTS."""
    total = term = b
    for _ in range(PRODUCTS):
        term = term - case.step * operator.product(term)
        total = total + term
    return case.step * total


def torchopt_side(case: Case) -> Hypergradient:
    """Return TorchOpt's hypergradient by implicit differentiation."""
    from torchopt.diff.implicit import custom_root  # noqa: PLC0415 - optional
    from torchopt.linear_solve import solve_cg  # noqa: PLC0415

    def stationarity(y: Tensor, x: Tensor) -> Tensor:
        return inner_gradient(case.problem, x, y, case.train)

    solve = solve_cg(maxiter=PRODUCTS, rtol=0.0, ridge=case.damping)

    @custom_root(stationarity, argnums=1, solve=solve)
    def inner(y: Tensor, x: Tensor) -> Tensor:  # noqa: ARG001 - already solved
        return y

    def hypergradient() -> Tensor:
        x = case.x.clone().requires_grad_(True)
        loss = case.problem.outer_loss(x, inner(case.y, x), case.validation)
        with warnings.catch_warnings():  # it still calls functorch by its old name
            warnings.simplefilter("ignore", FutureWarning)
            return torch.autograd.grad(loss, x)[0]

    return hypergradient


def betty_side(case: Case, solver: str = "neumann") -> Hypergradient:
    """Return Betty's hypergradient: the call its engine makes at an outer step."""
    from betty.configs import Config  # noqa: PLC0415 - optional
    from betty.hypergradient import get_grads  # noqa: PLC0415
    from betty.problems import ImplicitProblem  # noqa: PLC0415

    class Inner(ImplicitProblem):
        def training_step(self, batch: LabelledBatch) -> Tensor:
            y = self.module.value
            near = 0.5 * case.damping * (y - case.y).square().sum()
            return case.problem.inner_loss(weights.value, y, batch) + near

    weights, model = _Vector(case.x), _Vector(case.y)
    rules: dict[str, Any] = {
        "neumann": {"neumann_iterations": PRODUCTS, "neumann_alpha": case.step},
        "cg": {"cg_iterations": PRODUCTS},
    }
    inner = Inner("inner", Config(type=solver, **rules[solver]), model)
    inner.cur_batch = case.train
    outer = ImplicitProblem("outer", Config(), weights)

    def hypergradient() -> Tensor:
        loss = case.problem.outer_loss(weights.value, model.value, case.validation)
        return get_grads(loss, [outer, inner, outer], retain_graph=False)[0]

    return hypergradient


class _Vector(nn.Module):
    """A vector as a module's only parameter."""

    def __init__(self, value: Tensor) -> None:
        super().__init__()
        self.value = nn.Parameter(value.clone())


def _samples(size: int) -> tuple[LabelledBatch, LabelledBatch]:
    """Return noisy training and clean validation samples."""
    if {row.where for row in available() if row.name == "mnist"} == {"path"}:
        data = build("mnist", clients=1, samples_per_client=size, validation_size=size, rho=NOISE)
        return LabelledBatch.of(data.clients[0].inputs, data.clients[0].labels), LabelledBatch.of(
            *data.validation
        )
    source = generator(0, "benchmark", "samples")
    images = torch.randn(2, size, *SHAPE, generator=source)
    labels = torch.randint(10, (2, size), generator=source)
    return LabelledBatch.of(images[0], labels[0]), LabelledBatch.of(images[1], labels[1])


def _double(samples: LabelledBatch) -> LabelledBatch:
    return LabelledBatch(samples.inputs.double(), samples.labels, samples.positions)


def _check_equal(who: str, one: Tensor, other: Tensor) -> None:
    """Stop where equal solvers do not give equal answers: then one did other work."""
    apart = relative(one - other, other)
    if not apart < 1e-2:
        raise RunError(f"{who} differ by {apart:.3g}; make both solve the same system")


PEERS: dict[str, Callable[[Case], Hypergradient]] = {
    "torchopt": torchopt_side,
    "betty": betty_side,
}
