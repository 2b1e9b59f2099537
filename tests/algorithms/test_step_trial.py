"""The trial that finds a step, on a softmax regression whose trials are made by hand here."""

import numpy as np
import pytest
import torch
from torch import nn

from fedsift.algorithms import LocalSteps, Server
from fedsift.algorithms import step_trial as module
from fedsift.algorithms.clean_set import split_validation
from fedsift.algorithms.step_trial import LOW, Trial, attempt, bound_of_head, by_trial, find_step
from fedsift.problem import FlatModel, LabelledBatch, Reweighting
from fedsift.problem.largest_curvature import largest_curvature
from fedsift.randomness import generator

LOCAL = LocalSteps(batch_size=0)


def case(n=200, scale=1.0):
    source = generator(1, "trial case")
    net = nn.Linear(4, 3, bias=False).double()  # an intercept's curvature has no units
    inputs = torch.randn(n, 4, dtype=torch.float64, generator=source)
    labels = (inputs[:, :3] + 0.5 * torch.randn(n, 3, generator=source)).argmax(dim=1)
    problem = Reweighting(FlatModel(net), l2=1e-3)
    batch = LabelledBatch.of(scale * inputs, labels)
    return Server(problem, batch, seed=5), torch.zeros(problem.model.length, dtype=torch.float64)


def curvature(server, y):
    source = generator(server.seed, "curvature")
    return largest_curvature(server.problem, y, server.validation, source)


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


def test_a_head_has_the_bound_of_its_centred_features():
    inputs = 3.0 + torch.randn(50, 4, dtype=torch.float64, generator=generator(2, "head"))
    problem = Reweighting(FlatModel(nn.Linear(4, 3).double()), l2=0.01)
    server = Server(problem, LabelledBatch.of(inputs, torch.arange(50) % 3))
    covariance = np.cov(inputs.numpy().T, bias=True)  # the intercept's column adds 1 beside it
    largest = max(np.linalg.eigvalsh(covariance)[-1], 1.0)
    assert bound_of_head(server) == pytest.approx(1 / (largest / 2 + 0.01))
    assert find_step(server, problem.model.initial(), LOCAL) == pytest.approx(
        bound_of_head(server), rel=5e-3
    )


def test_other_models_have_no_such_bound():
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    batch = LabelledBatch.of(torch.randn(30, 4, generator=generator(3)), torch.arange(30) % 3)
    assert bound_of_head(Server(Reweighting(FlatModel(net)), batch)) is None


@pytest.mark.parametrize(
    ("scale", "low", "high"), [(1.0, 0.1, 2.0), (30.0, 1e-4, 0.06), (0.01, 100.0, 2e4)]
)
def test_inputs_in_other_units_have_another_step(scale, low, high):
    """Where 0.1 is between the bounds of the curvature it is kept unless it is clearly worse."""
    server, y = case(scale=scale)
    largest, step = curvature(server, y), by_trial(server, y, LOCAL)
    assert low <= step <= high
    assert step <= max(0.1, 2 / largest) * 1.01
    assert step <= 16 / largest * 1.01


@pytest.mark.parametrize("scale", [1.0, 30.0, 0.01])
def test_of_steps_that_are_not_clearly_worse_it_is_the_nearest_to_the_first(scale):
    server, y = case(scale=scale)
    largest = curvature(server, y)
    first = min(max(0.1, LOW / largest), 16 / largest)
    parts = split_validation(server, 0.5, "step size")
    steps = {j: first * 2.0**j for j in range(-10, 11) if j <= 0 or first * 2.0**j <= 2 / largest}
    grid = {
        j: attempt(server, y, parts, LocalSteps(lr=step, batch_size=0)) for j, step in steps.items()
    }
    best = min(grid.values(), key=lambda trial: trial.mean)  # the losses have one valley here
    fit = {j for j, trial in grid.items() if not _behind_by_hand(trial, best)}
    expected = {j for j in fit if abs(j) == min(map(abs, fit))}
    found = by_trial(server, y, LOCAL)
    assert any(found == pytest.approx(steps[j], rel=5e-3) for j in expected)


def _behind_by_hand(trial, best):
    d = (trial.losses - best.losses).numpy()
    return not d.mean() <= 2 * d.std(ddof=1) / np.sqrt(len(d))


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
    n = module.FEWEST - 1
    for scale, bound in ((0.01, LOW), (100.0, 16.0)):
        server, y = case(n=n, scale=scale)
        assert by_trial(server, y, LOCAL) == pytest.approx(bound / curvature(server, y), rel=5e-3)
    server, y = case(n=n, scale=3.0)
    assert by_trial(server, y, LOCAL) == 0.1


def test_the_step_has_three_digits():
    step = find_step(*case(), LOCAL)
    assert step == float(f"{step:.3g}")
