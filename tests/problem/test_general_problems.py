"""Every problem's hypergradient, through a federation, against finite differences of h(x).

h(x) = F(x, y_x),    y_x = argmin_y G(x, ·) by Newton's method on the pooled loss, in float64
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fedsift as fs
from fedsift.federation import LocalFederation
from fedsift.problem import FlatModel
from fedsift.problem.trees import flat
from fedsift.randomness import generator

CLIENTS = (5, 9, 7)
SHARES = torch.tensor(CLIENTS, dtype=torch.float64) / sum(CLIENTS)


def normal(name: str, *shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator(0, name))


def labelled(name: str, count: int) -> fs.LabelledBatch:
    labels = torch.randint(3, (count,), generator=generator(1, name))
    return fs.LabelledBatch.of(normal(name, count, 4), labels)


def linear(inputs: int = 4, outputs: int = 3) -> nn.Module:
    layer = nn.Linear(inputs, outputs).double()
    layer.load_state_dict({n: normal(n, *p.shape) for n, p in layer.state_dict().items()})
    return layer


def payoff(x: Tensor, y: Tensor, batch: fs.LabelledBatch) -> Tensor:
    """Concave in y, and not linear in x."""
    along = batch.inputs.mean(0)
    return (x * y).sum() + (along * y).sum() * x.sum().sin() - (y**2 * (1 + y**2)).sum()


PROBLEMS: dict[str, Callable[[], Any]] = {
    "group L2": lambda: fs.GroupL2.of(linear(), start=0.1),
    "class weights": lambda: fs.ClassWeights.of(linear(), 3, l2=0.05),
    "client weights": lambda: fs.ClientWeights.of(linear(), l2=0.05),
    "sample weights": lambda: Doubled(fs.Reweighting(FlatModel(linear()), l2=0.05)),
    "hyper-representation": lambda: fs.HyperRepresentation.of(
        nn.Sequential(linear(4, 2), nn.Tanh()), linear(2, 3), l2=0.05
    ),
    "min-max": lambda: fs.MinMax(payoff, normal("start", 4)),
}


@dataclass(frozen=True)
class Doubled:
    """Sample weights in float64, away from the ends of [0, 1]."""

    problem: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.problem, name)

    def initial_x(self, batch: Any) -> Tensor:
        return torch.full((len(batch),), 0.6, dtype=torch.float64)

    def project(self, x: Tensor) -> Tensor:
        return x  # the whole step is read off


def newton(problem: Any, xs: list[Tensor], batches: list[Any], y: Tensor) -> Tensor:
    """Return argmin_y Σ share g_m(x_m, y)."""

    def pooled(y: Tensor) -> Tensor:
        parts = zip(SHARES, xs, batches, strict=True)
        return torch.stack([s * problem.inner_loss(x, y, b) for s, x, b in parts]).sum()

    for _ in range(60):
        gradient = torch.func.grad(pooled)(y)
        if gradient.norm() < 1e-12:
            break
        step = torch.linalg.solve(torch.func.hessian(pooled)(y), gradient)
        y = y - step * min(1.0, 1.0 / float(step.norm()))
    assert gradient.norm() < 1e-10
    return y


@pytest.mark.parametrize("at_clients", [False, True], ids=["F at the server", "F at the clients"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_hypergradient_is_the_slope_of_h(name, at_clients):
    problem = PROBLEMS[name]()
    batches = [labelled(f"client {m}", count) for m, count in enumerate(CLIENTS)]
    held = [labelled(f"held {m}", 6) for m in range(3)]
    private = problem.x_is_private
    xs = [problem.initial_x(batch) for batch in batches]
    xs = xs if private else xs[:1]
    y0 = torch.zeros(4).double() if name == "min-max" else _module(problem).initial() * 0.1

    def h(moved: list[Tensor]) -> float:
        each = moved if private else moved * 3
        y = newton(problem, each, batches, y0)
        of = zip(SHARES, each, held, strict=True)
        if at_clients:
            return sum(float(s * problem.outer_loss(x, y, b)) for s, x, b in of)
        return float(problem.outer_loss(each[0], y, held[0]))

    y = newton(problem, xs if private else xs * 3, batches, y0)
    found = through_federation(problem, batches, held if at_clients else held[0], xs, y)
    step = 1e-5
    for m, (x, slope) in enumerate(zip(xs, found, strict=True)):
        for i in range(0, len(x), 1 + len(x) // 6):  # a few coordinates of each
            unit = torch.zeros_like(x)
            unit[i] = step
            ends = [[*xs[:m], x + sign * unit, *xs[m + 1 :]] for sign in (1, -1)]
            numeric = (h(ends[0]) - h(ends[1])) / (2 * step)
            assert float(slope[i]) == pytest.approx(numeric, rel=1e-4, abs=1e-7)


def _module(problem: Any) -> FlatModel:
    return problem.head if hasattr(problem, "head") else problem.model


def through_federation(
    problem: Any, batches: list[Any], held: Any, xs: list[Tensor], y: Tensor
) -> list[Tensor]:
    """Return ∇h by one round of Algorithm 1 with the exact solver and no local step."""
    at_clients = isinstance(held, list)
    federation = LocalFederation.of(problem, batches, validations=held if at_clients else None)
    algorithm = fs.CommFedBiO(fs.Exact(), fs.LocalSteps(1, 0.0, 0), fs.OuterStep(1.0, "gradient"))
    shared = None if problem.x_is_private else xs[0]
    found = fs.solve(
        problem,
        federation,
        y=y,
        x=shared,
        validation=fs.AtClients() if at_clients else held,
        method=algorithm,
        rounds=1,
        progress=False,
    )
    if shared is not None:
        return [shared - found.x]
    return [x - federation.state(m).x for m, x in enumerate(xs)]


def test_trees_are_flat_and_back():
    tree = {"a": torch.arange(6.0).view(2, 3), "b": [torch.ones(2), nn.Linear(2, 1)]}
    vector, layout = flat(tree)
    assert len(vector) == 6 + 2 + 3
    back = layout.tree(2 * vector)
    torch.testing.assert_close(back["a"], 2 * tree["a"])
    torch.testing.assert_close(back["b"][1]["weight"], 2 * tree["b"][1].weight.detach())
