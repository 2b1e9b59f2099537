from __future__ import annotations

import pytest
import torch

from fedsift.problem import (
    FlatModel,
    LabelledBatch,
    LossPair,
    Reweighting,
    derivatives,
    outer_loss_and_gradients,
    outer_value,
)
from fedsift.problem.batches import StoredBatch
from fedsift.problem.networks import build_model
from fedsift.randomness import generator
from stored import Watched


@pytest.fixture
def case():
    problem = Reweighting(FlatModel(build_model("digits_cnn", (1, 8, 8), 10, 0).double()))
    source = generator(0, "samples")
    inputs = torch.randn(150, 1, 8, 8, generator=source, dtype=torch.float64)
    labels = torch.randint(10, (150,), generator=source)
    return problem, problem.model.initial(), inputs, labels


def test_the_servers_gradient_in_parts_is_that_of_the_whole(case, monkeypatch):
    problem, y, inputs, labels = case
    batch = LabelledBatch.of(inputs, labels)
    leaf = y.clone().requires_grad_(True)
    loss = torch.nn.functional.cross_entropy(problem.model(leaf, batch.inputs), labels)
    (expected,) = torch.autograd.grad(loss, leaf)

    monkeypatch.setattr(derivatives, "NUMBERS", 0)  # parts of 64 samples
    value, gx, gy = outer_loss_and_gradients(problem, y.new_zeros(0), y, batch)

    torch.testing.assert_close(value, loss.detach())
    torch.testing.assert_close(gy, expected)
    assert gx.shape == (0,)
    torch.testing.assert_close(outer_value(problem, y.new_zeros(0), y, batch), loss.detach())


def test_few_samples_are_in_memory_at_once(case, monkeypatch):
    problem, y, inputs, labels = case
    monkeypatch.setattr(derivatives, "NUMBERS", 0)
    watched = Watched(inputs)
    batch = StoredBatch(watched, labels, torch.arange(150))
    outer_loss_and_gradients(problem, y.new_zeros(0), y, batch)
    assert watched.largest <= 64


def test_a_loss_that_is_no_mean_over_samples_is_not_cut(monkeypatch):
    """The squared sum of all numbers: parts would give another value."""
    monkeypatch.setattr(derivatives, "NUMBERS", 0)
    problem = LossPair(lambda x, y, b: y.sum(), lambda x, y, b: (y * b).sum() ** 2, torch.zeros(1))
    y, batch = torch.ones(1).double(), torch.arange(300.0).double()
    value, _, gy = outer_loss_and_gradients(problem, torch.zeros(1), y, batch)
    total = 300 * 299 / 2
    assert float(value) == pytest.approx(total**2, rel=1e-6)
    assert float(gy) == pytest.approx(2 * total**2, rel=1e-6)
