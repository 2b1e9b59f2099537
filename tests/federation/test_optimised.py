"""Optimisers at the server, against torch's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import fedsift as fs
from fedsift.algorithms.optimizers import BETA, Optimizer
from fedsift.errors import ConfigError

LR, STEP = 0.3, 0.02
TARGET = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)


def inner(x: Tensor, y: Tensor, batch: Any) -> Tensor:
    return 0.5 * ((y - x) ** 2).sum() + 0.0 * batch.tensors[0].sum()


def outer(x: Tensor, y: Tensor, batch: Any) -> Tensor:
    return 0.5 * ((y - TARGET) ** 2).sum() + 0.25 * (x**4).sum()


def start() -> Tensor:
    return torch.tensor([2.0, 1.0, -1.0], dtype=torch.float64)


def solve(rounds: int, clients: int = 1, method: str = "single-loop", **changes: Any) -> Any:
    batches = [fs.TensorBatch((torch.zeros(4, 1),)) for _ in range(clients)]
    given = {
        "y": start() - 1,
        "x": start(),
        "inner_lr": LR,
        "outer_lr": 1.0,
        "local_steps": 1,
        "batch_size": 0,
        "rounds": rounds,
        "progress": False,
    }
    problem = fs.LossPair(inner, outer, start())
    return fs.solve(problem, batches, validation=batches[0], method=method, **{**given, **changes})


def torch_optimizer(name: str, parameter: Tensor, lr: float) -> torch.optim.Optimizer:
    if name == "adam":
        return torch.optim.Adam([parameter], lr=STEP)
    return torch.optim.SGD([parameter], lr=lr, momentum=BETA if name == "momentum" else 0.0)


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam"])
def test_y_moves_as_by_torch(name):
    step = STEP if name == "adam" else 0.0
    found = solve(4, inner_optimizer=name, inner_optimizer_step=step, outer_lr=1e-12)
    y = (start() - 1).requires_grad_()
    ours = torch_optimizer(name, y, LR)
    for _ in range(4):
        ours.zero_grad()
        inner(start(), y, fs.TensorBatch((torch.zeros(4, 1),))).backward()
        ours.step()
    torch.testing.assert_close(found.y, y.detach(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam"])
def test_x_moves_as_by_torch(name):
    step = STEP if name == "adam" else 0.0
    algorithm = fs.CommFedBiO(fs.Exact(), fs.LocalSteps(1, 1.0, 0), fs.OuterStep(LR, "gradient"))
    batches = [fs.TensorBatch((torch.zeros(4, 1),))]
    found = fs.solve(
        fs.LossPair(inner, outer, start()),
        batches,
        validation=batches[0],
        y=start(),
        x=start(),
        method=algorithm,
        rounds=4,
        outer_optimizer=name,
        outer_optimizer_step=step,
        progress=False,
    )
    x = start().requires_grad_()
    ours = torch_optimizer(name, x, LR)
    for _ in range(4):  # a step of 1 solves the inner problem: y = x
        ours.zero_grad()
        outer(x, x, None).backward()
        ours.step()
    torch.testing.assert_close(found.x, x.detach(), rtol=1e-6, atol=1e-7)


def test_a_projection_comes_last():
    problem = fs.LossPair(inner, outer, start(), projection=lambda x: x.clamp(0.9, 1.1))
    batch = fs.TensorBatch((torch.zeros(4, 1),))
    found = fs.solve(
        problem,
        [batch],
        validation=batch,
        y=start(),
        x=start(),
        inner_lr=LR,
        rounds=3,
        outer_optimizer="adam",
        progress=False,
    )
    assert float(found.x.min()) >= 0.9
    assert float(found.x.max()) <= 1.1


def test_a_resumed_run_is_bit_equal(tmp_path):
    used = {"inner_optimizer": "adam", "outer_optimizer": "adam", "correct_drift": True}
    whole = solve(6, clients=2, **used)
    solve(3, clients=2, out=tmp_path / "a", **used)
    resumed = solve(6, clients=2, out=tmp_path / "a", resume=True, **used)
    assert torch.equal(resumed.x, whole.x)
    assert torch.equal(resumed.y, whole.y)


def test_the_next_step_depends_on_those_before():
    optimizer, change = Optimizer("momentum"), torch.ones(2)
    first, state = optimizer.change(change, {})
    second, _ = optimizer.change(change, state)
    torch.testing.assert_close(first, change)
    torch.testing.assert_close(second, (1 + BETA) * change)


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match=r"inner_optimizer is 'adm'.*did you mean 'adam'"):
        solve(1, inner_optimizer="adm")
    with pytest.raises(ConfigError, match="outer_optimizer_step is -1"):
        solve(1, outer_optimizer_step=-1.0)
    with pytest.raises(ConfigError, match="simfbo has local steps of its own kind"):
        solve(1, method="simfbo", inner_optimizer="adam")
    problem = fs.LossPair(inner, outer, start(), x_is_private=True)
    batch = fs.TensorBatch((torch.zeros(4, 1),))
    with pytest.raises(ConfigError, match="private to the clients"):
        fs.solve(problem, [batch], validation=batch, y=start(), outer_optimizer="adam")
