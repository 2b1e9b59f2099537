from __future__ import annotations

import pytest
import torch
from scipy.stats import chi2

from fedsift.problem import sgd
from fedsift.problem.sgd import LocalSteps, minibatches, shuffled
from fedsift.randomness import generator

CPU = torch.device("cpu")


def test_few_samples_come_in_the_order_of_a_whole_permutation():
    whole = torch.randperm(100, generator=generator(0, "order"))
    assert torch.equal(shuffled(100, 30, generator(0, "order")), whole[:30])


@pytest.mark.parametrize("count", [1, 500, 24_000])
def test_of_many_samples_distinct_ones_are_drawn(monkeypatch, count):
    monkeypatch.setattr(sgd, "MANY", 1000)
    found = shuffled(100_000, count, generator(0, "order"))
    assert len(found) == count == len(found.unique())
    assert int(found.min()) >= 0
    assert int(found.max()) < 100_000


def test_every_sample_is_drawn_as_often(monkeypatch):
    """20,000 draws of 5 of 20, in tenths: chi-square with 19 degrees of freedom."""
    monkeypatch.setattr(sgd, "MANY", 10)
    source = generator(0, "order")
    counts = torch.zeros(20)
    for _ in range(2000):
        counts[shuffled(20, 5, source)] += 1
    statistic = float(((counts - 500) ** 2 / (500 * 15 / 19)).sum())  # without replacement
    assert 1e-4 < chi2.sf(statistic, df=19) < 1 - 1e-4


def test_batches_of_many_samples_begin_with_those_named(monkeypatch):
    monkeypatch.setattr(sgd, "MANY", 100)
    first = torch.arange(0, 700, 10)
    batches = minibatches(5000, LocalSteps(4, 0.1, 50), generator(0, "order"), CPU, first)
    drawn = torch.cat(batches)
    assert torch.equal(drawn[:70], first)
    assert [len(batch) for batch in batches] == [50] * 4
    assert len(drawn.unique()) == 200
