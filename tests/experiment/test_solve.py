"""``solve`` as a user calls it: any problem, any of the general methods."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import fedsift as fs
from conftest import quadratic_case
from fedsift.algorithms.registry import METHODS
from fedsift.client import update
from fedsift.errors import ConfigError, InputError
from fedsift.federation import LocalFederation
from fedsift.problem import FlatModel
from fedsift.problem.quadratic import mean_client, random_quadratic
from fedsift.randomness import generator

GENERAL = [name for name, row in METHODS.items() if row.general]
SOLVING = {  # settings with which a method reaches the solution, not a neighbourhood of it
    "single-loop": {"outer_lr": 1.0},
    "iter-topk": {"iterations": 3, "outer_lr": 1.0, "rounds": 40},
    "simfbo": {"outer_lr": 1.0},
    "fedbioacc": {"outer_lr": 1.0},
    "first-order": {"penalty": 300.0, "outer_lr": 1.0},
}


def case() -> Any:
    return quadratic_case(clients=3, length=6, outer_length=2, condition=3.0)


def quick(made: Any, **changes: Any) -> fs.Solution:
    given = {
        "y": made.point.y,
        "x": made.point.x,
        "local_steps": 1,
        "batch_size": 0,
        "rounds": 4,
        "progress": False,
    }
    return fs.solve(made.problem, made.clients, **{**given, **changes})


@pytest.mark.parametrize("method", SOLVING)
def test_a_method_finds_the_solution_of_a_quadratic(method):
    made = case()
    found = quick(made, method=method, **{"rounds": 80, **SOLVING[method]})
    x = made.problem.outer_solution(made.mean)
    # first-order has a bias of O(1 / λ), simfbo and fedbioacc one of their own local steps
    near = {"rtol": 0.02, "atol": 0.02} if method == "first-order" else {"rtol": 2e-3, "atol": 2e-3}
    torch.testing.assert_close(found.x, x, **near)


@pytest.mark.parametrize("method", GENERAL)
def test_every_general_method_runs_on_a_shared_x(method):
    small = {"rank": 3} if method == "nystrom" else {}  # of six parameters
    found = quick(case(), method=method, **small)
    assert len(found.history) == 4
    assert bool(torch.isfinite(found.x).all())
    assert (found.history["bytes_up"] > 0).all()
    assert found.history["outer_loss"].notna().all()


def test_algorithm_1_by_objects_is_that_by_name():
    made = case()
    by_name = quick(made, method="iter-topk", rate=2.0, inner_lr=0.2, solver_lr=0.2, outer_lr=0.5)
    compressor = fs.TopK(6, 3)
    algorithm = fs.CommFedBiO(
        fs.Iterative.of(compressor, schedule=fs.Constant(0.2)),
        fs.LocalSteps(1, 0.2, 0),
        fs.OuterStep(0.5, "gradient", 0.0),
    )
    given = {"y": made.point.y, "x": made.point.x, "rounds": 4, "progress": False}
    by_object = fs.solve(made.problem, made.clients, method=algorithm, **given)
    # values in 16 bits are a key of the method by name
    torch.testing.assert_close(by_object.x, by_name.x, rtol=1e-3, atol=1e-3)


def test_the_step_that_is_found_is_one_over_the_largest_eigenvalue():
    made = case()
    seen = quick(made, rounds=1, method="no-hessian", check_residual=True)
    largest = float(torch.linalg.eigvalsh(made.mean.A)[-1])
    start, gradient = (
        made.point.y,
        made.mean.A @ made.point.y - (made.mean.B @ made.point.x + made.mean.c),
    )
    torch.testing.assert_close(seen.y, start - gradient / largest, rtol=1e-6, atol=1e-8)


def test_outer_loss_at_the_clients_is_that_at_the_server_when_they_have_the_same_samples():
    made = case()
    at_server = quick(made, rounds=10)
    at_clients = quick(made, rounds=10, validations=[0] * 3)
    torch.testing.assert_close(at_clients.x, at_server.x, rtol=1e-9, atol=1e-12)
    assert at_clients.history["exchanges"].tolist() == [1] * 10
    assert at_server.history["exchanges"].tolist() == [1] * 10
    # the clients report F at (x_k, y_k), the server's is F after the round
    torch.testing.assert_close(
        torch.tensor(at_clients.history["outer_loss"].tolist()[1:]),
        torch.tensor(at_server.history["outer_loss"].tolist()[:-1]),
    )


def test_outer_loss_at_the_clients_weighs_them_by_their_samples():
    batches = [fs.TensorBatch((torch.ones(n, dtype=torch.float64),)) for n in (1, 3)]
    targets = [torch.tensor([0.0]).double(), torch.tensor([4.0]).double()]

    def inner(x: Tensor, y: Tensor, batch: Any) -> Tensor:
        return 0.5 * ((y - x) ** 2).sum() * batch.tensors[0].mean()

    def outer(x: Tensor, y: Tensor, batch: Tensor) -> Tensor:
        return 0.5 * ((y - batch) ** 2).sum()

    start = torch.zeros(1, dtype=torch.float64)
    problem = fs.LossPair(inner, outer, start)
    found = fs.solve(
        problem,
        batches,
        validations=targets,
        y=start,
        x=start,
        rounds=60,
        outer_lr=0.3,
        progress=False,
    )
    torch.testing.assert_close(found.x, torch.tensor([3.0]).double(), rtol=1e-4, atol=1e-4)


def test_a_resumed_solve_is_bit_equal(tmp_path):
    made = case()
    whole = quick(made, rounds=8, rate=2.0, out=tmp_path / "whole")
    quick(made, rounds=5, rate=2.0, out=tmp_path / "part")
    resumed = quick(made, rounds=8, rate=2.0, out=tmp_path / "part", resume=True)
    assert torch.equal(resumed.x, whole.x)
    assert torch.equal(resumed.y, whole.y)
    kept = ["round", "outer_loss", "bytes_up", "bytes_down"]
    pd.testing.assert_frame_equal(resumed.history[kept], whole.history[kept])


def test_a_solve_is_resumed_with_what_it_was_started_with_only(tmp_path):
    made = case()
    quick(made, rounds=2, out=tmp_path / "a")
    with pytest.raises(InputError, match="was solved with outer_lr"):
        quick(made, rounds=4, out=tmp_path / "a", resume=True, outer_lr=0.2)
    with pytest.raises(InputError, match="was solved with start"):
        quick(made, rounds=4, out=tmp_path / "a", resume=True, y=made.point.y + 1)
    with pytest.raises(InputError, match="already holds a run"):
        quick(made, out=tmp_path / "a")
    with pytest.raises(InputError, match="holds no run"):
        quick(made, out=tmp_path / "b", resume=True)
    assert not (tmp_path / "b").exists()


def test_it_stops_at_the_tolerance():
    made = case()
    found = quick(made, rounds=80, outer_lr=1.0, tolerance=1e-3)
    assert len(found.history) < 80
    assert (found.history["hypergradient_norm"].tail(5) <= 1e-3).all()
    assert found.history["hypergradient_norm"].iloc[-6] > 1e-3
    assert "hypergradient was at most 0.001" in found.stopped


def test_modules_and_dicts_are_what_the_losses_get():
    source = generator(0, "trees")
    inputs = torch.randn(40, 3, generator=source)
    batch = fs.TensorBatch((inputs, inputs @ torch.tensor([1.0, -1.0, 0.5])))
    layer = nn.Linear(3, 1)

    def error(y: dict[str, Tensor], batch: fs.TensorBatch) -> Tensor:
        predicted = torch.func.functional_call(layer, y, (batch.tensors[0],)).squeeze(1)
        return 0.5 * (predicted - batch.tensors[1]).square().mean()

    def inner(x: dict[str, Tensor], y: dict[str, Tensor], batch: fs.TensorBatch) -> Tensor:
        return error(y, batch) + 0.5 * x["decay"].exp() * y["weight"].square().sum()

    def outer(x: dict[str, Tensor], y: dict[str, Tensor], batch: fs.TensorBatch) -> Tensor:
        return error(y, batch)

    start = {"decay": torch.zeros(())}
    problem = fs.LossPair(inner, outer, start)
    given = {"validation": batch, "y": layer, "x": start, "rounds": 30, "outer_lr": 1.0}
    found = fs.solve(problem, [batch, batch], **given, progress=False)
    assert set(found.y) == {"weight", "bias"}
    assert found.y["weight"].shape == (1, 3)
    assert float(found.x["decay"]) < -0.1  # no noise: decay only hurts


def test_a_private_x_reports_its_size_and_stays():
    model = nn.Linear(2, 3)
    source = generator(0, "private")
    batches = [
        fs.LabelledBatch.of(
            torch.randn(20, 2, generator=source), torch.randint(3, (20,), generator=source)
        )
        for _ in range(2)
    ]
    problem = fs.Reweighting(FlatModel(model))
    found = fs.solve(
        problem, batches, validation=batches[0], y=problem.model.initial(), rounds=3, progress=False
    )
    assert found.x is None
    assert (found.history["hypergradient_rms"].tail(2) > 0).all()


def test_wrong_calls_are_refused_in_a_sentence():
    made = case()
    with pytest.raises(ConfigError, match="solve needs a start x"):
        quick(made, x=None)
    with pytest.raises(ConfigError, match="solve has no method 'posterior'"):
        quick(made, method="posterior")
    with pytest.raises(ConfigError, match="no setting 'inner_ls'; did you mean 'inner_lr'"):
        quick(made, inner_ls=1.0)
    with pytest.raises(ConfigError, match="first-order takes steps on F at the server"):
        quick(made, method="first-order", validations=[0, 0, 0])
    with pytest.raises(ConfigError, match="validation and validations"):
        quick(made, validation=0, validations=[0, 0, 0])
    with pytest.raises(InputError, match="3 clients but validation samples of 2"):
        quick(made, validations=[0, 0])
    with pytest.raises(InputError, match="y holds a str"):
        quick(made, y={"a": "b"})
    with pytest.raises(ConfigError, match="resume needs the folder"):
        quick(made, resume=True)
    start = {"y": made.point.y, "x": made.point.x}
    with pytest.raises(ConfigError, match="got a federation and validations"):
        fs.solve(made.problem, made.federation, **start, validations=[0, 0, 0])


def test_a_federation_may_be_given():
    problem, clients = random_quadratic(clients=2, length=4, outer_length=1, condition=2.0)
    federation = LocalFederation.of(problem, clients)
    given = {"y": torch.zeros_like(problem.target), "x": problem.initial_x(None), "rounds": 3}
    one = fs.solve(problem, federation, **given, progress=False)
    other = fs.solve(problem, clients, **given, progress=False)
    assert torch.equal(one.x, other.x)
    assert mean_client(clients).num_samples == sum(federation.sizes.values())


def opposed(rounds: int = 130) -> tuple[Tensor, pd.DataFrame]:
    """Solve for a mean of targets where large opposed parts of two clients hide the rest."""
    length, loud = 1500, 100
    push = torch.zeros(length)
    push[:loud] = 10.0
    quiet = (torch.arange(length) >= loud).float()
    problem = fs.LossPair(
        lambda x, y, batch: 0.5 * y.square().sum() + 0.0 * batch.tensors[0].sum() * x.sum(),
        lambda x, y, batch: 0.5 * (x - batch).square().sum() + y.sum(),
        torch.zeros(length),
    )
    found = fs.solve(
        problem,
        [fs.TensorBatch((torch.zeros(5, 1),))] * 2,
        validations=[quiet + push, quiet - push],
        y=torch.zeros(1),
        x=torch.zeros(length),
        rounds=rounds,
        update_rate=20.0,
        local_steps=1,
        inner_lr=1.0,
        outer_lr=0.04,
        progress=False,
    )
    return found.x[loud:], found.history


def test_what_is_left_out_of_parts_of_x_is_sent_later(monkeypatch):
    quiet, history = opposed()
    assert float((quiet - 1).abs().mean()) < 0.2
    assert history["bytes_up"].max() < 2 * 4 * 1500 / 3  # of which 2,560 are for the residual
    monkeypatch.setattr(update, "_owed", lambda *_: None)  # without feedback they never move
    assert float((opposed()[0] - 1).abs().mean()) > 0.8
