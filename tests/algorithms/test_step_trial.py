"""The trial that finds a step, on a softmax regression whose trials are made by hand here."""

import pytest
import torch
from torch import nn

from fedsift.algorithms import LocalSteps, Server
from fedsift.algorithms import step_trial as module
from fedsift.algorithms.clean_set import split_validation
from fedsift.algorithms.step_trial import Trial, attempt, find_step
from fedsift.problem import FlatModel, LabelledBatch, Reweighting
from fedsift.problem.largest_curvature import largest_curvature
from fedsift.randomness import generator

LOCAL = LocalSteps(batch_size=0)


def case(n=200, scale=1.0):
    source = generator(1, "trial case")
    net = nn.Linear(4, 3).double()
    inputs = torch.randn(n, 4, dtype=torch.float64, generator=source)
    labels = (inputs[:, :3] + 0.5 * torch.randn(n, 3, generator=source)).argmax(dim=1)
    problem = Reweighting(FlatModel(net), l2=1e-3)
    batch = LabelledBatch.of(scale * inputs, labels)
    return Server(problem, batch, seed=5), torch.zeros(problem.model.length, dtype=torch.float64)


def lowest(server, y):
    source = generator(server.seed, "curvature")
    return 2 / largest_curvature(server.problem, y, server.validation, source)


def test_a_trial_is_descent_on_one_half_judged_on_the_other():
    server, y = case()
    A, B = split_validation(server, 0.5, "step size")
    W, best = y.clone(), None
    for _ in range(module.STEPS // module.EVERY):
        for _ in range(module.EVERY):
            leaf = W.clone().requires_grad_(True)
            loss = server.problem.outer_loss(None, leaf, A) + 0.5e-3 * leaf @ leaf
            W = W - 0.3 * torch.autograd.grad(loss, leaf)[0]
        loss = server.problem.outer_loss(None, W, B)
        best = loss if best is None else min(best, loss)
    trial = attempt(server, y, (A, B), LocalSteps(lr=0.3, batch_size=0))
    assert trial.mean == pytest.approx(float(best), rel=1e-10)


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_the_step_is_within_a_standard_error_of_the_best(scale):
    """And smaller ones are not; inputs of another scale have another step."""
    server, y = case(scale=scale)
    parts, unit = split_validation(server, 0.5, "step size"), lowest(server, y)
    grid = [attempt(server, y, parts, LocalSteps(lr=unit * 2**j, batch_size=0)) for j in range(7)]
    step = find_step(server, y, LOCAL)
    at = next(j for j in range(7) if step == pytest.approx(grid[j].step, rel=5e-3))
    best = min(grid, key=lambda trial: trial.mean)
    d = grid[at].losses - best.losses
    assert d.mean() <= d.std() / len(d) ** 0.5
    assert all(trial.behind(best) for trial in grid[:at])


def test_a_step_that_diverges_is_behind():
    server, y = case()
    parts = split_validation(server, 0.5, "step size")
    good, bad = (attempt(server, y, parts, LocalSteps(lr=lr)) for lr in (0.3, 1e30))
    assert bad.behind(good)
    assert not good.behind(bad)
    assert not good.behind(good)


def test_losses_that_are_no_numbers_are_behind():
    good = Trial(0.1, torch.tensor([1.0, 2.0]))
    assert Trial(0.2, torch.tensor([1.0, float("nan")])).behind(good)


def test_too_few_clean_samples_for_a_trial():
    server, y = case(n=module.FEWEST - 1)
    assert find_step(server, y, LOCAL) == pytest.approx(lowest(server, y), rel=5e-3)


def test_the_step_has_three_digits():
    step = find_step(*case(), LOCAL)
    assert step == float(f"{step:.3g}")
