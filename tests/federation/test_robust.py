"""The rules, against closed forms and scipy; a few liars cannot move them far."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from fedsift.compress import Sketch, Sparse
from fedsift.federation.robust import RULES, aggregated, clipped, liars, median_of_means
from fedsift.randomness import generator

ROBUST = {name: rule for name, rule in RULES.items() if rule is not None}


def honest(n=10, d=20):
    return torch.ones(d, dtype=torch.float64) + 0.1 * torch.randn(
        n, d, generator=generator(0, "honest"), dtype=torch.float64
    )


def shares(n=10):
    return torch.full((n,), 1 / n, dtype=torch.float64)


@pytest.mark.parametrize("rule", ROBUST)
@pytest.mark.parametrize("lie", [-10.0, 100.0, -1.0])
def test_three_of_ten_cannot_steer_a_rule(rule, lie):
    rows = honest()
    rows[:3] *= lie
    found = ROBUST[rule](rows, shares())
    assert float((found - 1).abs().max()) < 0.5
    assert float((rows.mean(dim=0) - 1).abs().max()) > 0.5  # which they can do to the mean


def test_median_and_trimmed_mean_are_numpys():
    rows = honest(7, 5)
    np.testing.assert_allclose(RULES["median"](rows, shares(7)), np.median(rows, axis=0))
    even = honest(6, 5)
    np.testing.assert_allclose(RULES["median"](even, shares(6)), np.median(even, axis=0))
    expected = np.sort(rows.numpy(), axis=0)[2:-2].mean(axis=0)
    np.testing.assert_allclose(RULES["trimmed-mean"](rows, shares(7)), expected)


def test_the_geometric_median_minimises_the_sum_of_distances():
    rows, weights = honest(9, 3), torch.linspace(1, 2, 9, dtype=torch.float64)

    def loss(z):
        return float((weights * (rows - torch.from_numpy(z)).norm(dim=1)).sum())

    best = minimize(loss, np.ones(3), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12})
    found = RULES["geometric-median"](rows, weights)
    assert loss(found.numpy()) <= best.fun * (1 + 1e-4)


def test_krum_returns_one_of_the_vectors():
    rows = honest()
    rows[4] = 50.0
    found = RULES["krum"](rows, shares())
    assert any(torch.equal(found, row) for n, row in enumerate(rows) if n != 4)


def test_median_of_means_is_the_mean_without_liars_to_fear():
    rows = honest(3)  # b = 0: one group
    torch.testing.assert_close(median_of_means(rows, shares(3)), rows.mean(dim=0))
    rows = honest()
    rows[0] = 1e6
    assert float((median_of_means(rows, shares()) - 1).abs().max()) < 0.5


def test_payloads_keep_their_form():
    table = torch.ones(2, 3)
    sketch = Sketch(table, 30, 7)
    found = aggregated([sketch, sketch, sketch], [1 / 3] * 3, median_of_means)
    assert (found.length, found.seed) == (30, 7)
    torch.testing.assert_close(found.table, table)
    sparse = Sparse(torch.tensor([1]), torch.tensor([2.0]), 3)
    assert clipped(sparse, 0.5).values.tolist() == [1.0]
    dense = aggregated([sparse] * 3, [1 / 3] * 3, RULES["median"])
    assert dense.tolist() == [0.0, 2.0, 0.0]
    assert aggregated([table, sketch, sketch], [1 / 3] * 3, median_of_means) is None


@pytest.mark.parametrize(("n", "b"), [(3, 0), (4, 1), (5, 1), (10, 3), (1, 0)])
def test_how_many_may_lie(n, b):
    assert liars(n) == b
