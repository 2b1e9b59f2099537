"""A personal lower level: the hypergradient against finite differences of h, and what is refused.

h(x) = Σ share f_m(x, y_m(x)),    y_m(x) = argmin_y g_m(x, y) by Newton's method, in float64
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import fedsift as fs
from fedsift.algorithms.personal import SOLVERS
from fedsift.client import personal
from fedsift.errors import ConfigError, TooFewClients
from fedsift.federation import LocalFederation
from fedsift.randomness import generator

COUNTS = (6, 9, 12)
SHARES = [count / sum(COUNTS) for count in COUNTS]
START = torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64)


def normal(name: str, *shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator(0, name))


def error(y: Tensor, batch: fs.TensorBatch) -> Tensor:
    inputs, targets = batch.tensors
    return torch.nn.functional.softplus(-targets * (inputs @ y)).mean()


def inner(x: Tensor, y: Tensor, batch: fs.TensorBatch) -> Tensor:
    """Return a client's own loss, held near x; not linear in x."""
    return error(y, batch) + 0.5 * ((y - x - 0.1 * x**3) ** 2).sum()


def outer(x: Tensor, y: Tensor, batch: fs.TensorBatch) -> Tensor:
    return error(y, batch) + 0.05 * x.square().sum()


PROBLEM = fs.LossPair(inner, outer, START, y_is_private=True)


def samples(name: str, count: int) -> fs.TensorBatch:
    inputs = normal(name, count, 3)
    return fs.TensorBatch((inputs, normal(f"{name} targets", count).sign()))


BATCHES = [samples(f"client {m}", count) for m, count in enumerate(COUNTS)]
HELD = [samples(f"held {m}", 5) for m in range(3)]


def solve(**changes: Any) -> fs.Solution:
    given = {"x": START, "y": torch.zeros(3).double(), "validations": HELD, "progress": False}
    plain = {"method": "cg", "local_steps": 200, "batch_size": 0, "outer_lr": 1.0, "rounds": 1}
    return fs.solve(PROBLEM, BATCHES, **{**given, **plain, **changes})


def best(x: Tensor, batch: fs.TensorBatch) -> Tensor:
    y = torch.zeros(3, dtype=torch.float64)
    for _ in range(30):
        slope = torch.func.grad(inner, argnums=1)(x, y, batch)
        y = y - torch.linalg.solve(torch.func.hessian(inner, argnums=1)(x, y, batch), slope)
    return y


def h(x: Tensor) -> float:
    parts = zip(SHARES, BATCHES, HELD, strict=True)
    return sum(share * float(outer(x, best(x, batch), held)) for share, batch, held in parts)


def slope_of_h(x: Tensor = START) -> Tensor:
    step, units = 1e-5, torch.eye(3, dtype=torch.float64)
    ends = [(h(x + step * u) - h(x - step * u)) / (2 * step) for u in units]
    return torch.tensor(ends, dtype=torch.float64)


@pytest.mark.parametrize(("method", "terms"), [("cg", 3), ("neumann", 200)])
def test_hypergradient_is_the_slope_of_h(method, terms):
    found = solve(method=method, terms=terms)
    torch.testing.assert_close(START - found.x, slope_of_h(), rtol=1e-4, atol=1e-7)


def test_the_kept_v_of_single_loop_reaches_the_slope_of_h():
    found = solve(method="single-loop", rounds=60, local_steps=5, outer_lr=1e-12)
    last = found.history["hypergradient_norm"].iloc[-1]
    assert last == pytest.approx(float(slope_of_h().norm()), rel=1e-4)


def test_without_its_own_system_it_would_not_be():
    slope = slope_of_h()
    parts = zip(SHARES, BATCHES, HELD, strict=True)
    direct = [
        share * torch.func.grad(outer)(START, best(START, batch), held)
        for share, batch, held in parts
    ]
    assert float((torch.stack(direct).sum(0) - slope).norm()) > 0.1 * float(slope.norm())


def test_it_ends_where_h_is_flat_in_one_exchange_a_round():
    found = solve(method="single-loop", rounds=120, local_steps=5, tolerance=1e-5)
    assert "hypergradient was at most" in found.stopped
    assert set(found.history["exchanges"]) == {1}
    assert float(slope_of_h(found.x).norm()) < 1e-4
    assert found.y is None


def test_what_travels_is_x_and_its_hypergradient():
    federation = LocalFederation.of(PROBLEM, BATCHES, validations=HELD)
    given = {"x": START, "y": torch.zeros(3).double(), "progress": False}
    found = fs.solve(PROBLEM, federation, validation=fs.AtClients(), method="cg", rounds=2, **given)
    assert found.history["residual"].iloc[-1] < 1e-6
    ys = [federation.inspect(m)["own_y"] for m in range(3)]
    assert not torch.equal(ys[0], ys[1])


def test_a_resumed_run_is_bit_equal(tmp_path):
    used = {"method": "single-loop", "local_steps": 3, "batch_size": 4}
    whole = solve(rounds=6, **used)
    solve(rounds=3, out=tmp_path / "a", **used)
    assert torch.equal(solve(rounds=6, out=tmp_path / "a", resume=True, **used).x, whole.x)


def test_conjugate_gradients_stop_where_the_matrix_is_not_positive():
    system = personal.System(lambda v: -v, torch.ones(2), torch.zeros(2))
    assert torch.equal(personal.SOLVERS["cg"](system, personal.OwnSystem("cg", 5)), torch.zeros(2))
    assert set(personal.SOLVERS) == set(SOLVERS)


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="iter-topk exchanges products of one y"):
        solve(method="iter-topk")
    with pytest.raises(ConfigError, match="F is the clients' too"):
        solve(validations=None, validation=HELD[0])
    with pytest.raises(ConfigError, match="correct_drift is about the clients' mean update"):
        solve(correct_drift=True)
    with pytest.raises(ConfigError, match="Personal is for a y of every client's own"):
        solve(method=fs.CommFedBiO(fs.Exact()), local_steps=None)
    both = fs.LossPair(inner, outer, START, x_is_private=True, y_is_private=True)
    with pytest.raises(ConfigError, match="both private"):
        fs.solve(both, BATCHES, y=START, validations=HELD)
    bare = LocalFederation.of(PROBLEM, BATCHES)
    with pytest.raises(TooFewClients, match="no validation samples"):
        fs.solve(PROBLEM, bare, y=START, x=START, validation=fs.AtClients(), method="cg")


def test_a_personalised_model_has_the_slope_of_h():
    layer = torch.nn.Linear(2, 3).double()
    problem = fs.Personalised.of(layer, strength=0.5)

    def labelled(name: str, count: int) -> fs.LabelledBatch:
        labels = torch.randint(3, (count,), generator=generator(1, name))
        return fs.LabelledBatch.of(normal(name, count, 2), labels)

    train, held = labelled("train", 7), labelled("held", 5)
    x0 = problem.initial_x()
    given = {"x": x0, "y": x0, "rounds": 1, "local_steps": 300, "batch_size": 0, "outer_lr": 1.0}
    found = fs.solve(
        problem, [train], validations=[held], method="cg", terms=9, progress=False, **given
    )

    def h(x: Tensor) -> float:
        y = x.clone()
        for _ in range(20):
            slope = torch.func.grad(problem.inner_loss, argnums=1)(x, y, train)
            bent = torch.func.hessian(problem.inner_loss, argnums=1)(x, y, train)
            y = y - torch.linalg.solve(bent, slope)
        return float(problem.outer_loss(x, y, held))

    for i in (0, 4, 8):
        unit = 1e-5 * torch.eye(len(x0), dtype=torch.float64)[i]
        numeric = (h(x0 + unit) - h(x0 - unit)) / 2e-5
        assert float((x0 - found.x)[i]) == pytest.approx(numeric, rel=1e-4, abs=1e-7)
