"""Section 4's part: Shapley values against enumeration, fits against torch."""

import itertools
import math

import pytest
import torch

from fedsift.errors import InputError
from fedsift.experiment.theory import contribution
from fedsift.experiment.theory.contribution import L2, N, Samples, Size, fitted, slope_at_one
from fedsift.experiment.theory.shapley import by_permutations, exact, leave_one_out
from fedsift.problem import LabelledBatch
from fedsift.problem.derivatives import inner_gradient


def gain(members):
    """A game with interactions: no additive one would tell permutations from leave-one-out."""
    weights = torch.arange(1, members.shape[1] + 1).double()
    linear = members @ weights
    return linear.sqrt() + 0.3 * members[:, 0] * members[:, -1]


def by_definition(n):
    """Return Shapley values as the mean over all n! orders."""
    values = {
        subset: float(gain(torch.tensor([[float(j in subset) for j in range(n)]]).double())[0])
        for size in range(n + 1)
        for subset in map(frozenset, itertools.combinations(range(n), size))
    }
    found = [0.0] * n
    for order in itertools.permutations(range(n)):
        for place, j in enumerate(order):
            before = frozenset(order[:place])
            found[j] += (values[before | {j}] - values[before]) / math.factorial(n)
    return torch.tensor(found, dtype=torch.float64)


def test_subsets_give_the_mean_over_all_orders():
    torch.testing.assert_close(exact(gain, 6), by_definition(6))


def test_they_add_up_to_the_whole_gain_with_ten_samples():
    members = torch.stack((torch.ones(10), torch.zeros(10))).double()
    whole = gain(members)
    torch.testing.assert_close(exact(gain, 10).sum(), whole[0] - whole[1])


def test_permutations_come_near_and_leave_one_out_is_another_number():
    true = exact(gain, 8)
    source = torch.Generator().manual_seed(0)
    found = by_permutations(gain, 8, 800, source)
    assert float((found - true).abs().max()) < 0.05  # 0.02 at 4 deviations of the largest spread
    assert float((leave_one_out(gain, 8) - true).abs().max()) > 0.05


def test_more_samples_than_can_be_listed_are_refused():
    with pytest.raises(InputError, match="draw permutations instead"):
        exact(gain, 17)


def test_newton_ends_where_the_gradient_is_zero():
    samples = Samples.of(0)
    problem = samples.problem()
    weights = torch.rand(N, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    y = fitted(samples.inputs, samples.labels, weights[None], L2)[0]
    batch = LabelledBatch.of(samples.inputs, samples.labels)
    gradient = inner_gradient(problem, weights, y, batch)
    assert float(gradient.abs().max()) < 1e-10


def test_the_slope_at_one_is_that_of_the_clean_loss():
    samples = Samples.of(0)
    found, step = slope_at_one(samples), 1e-5
    for j in (0, 7):
        moved = torch.ones(2, N, dtype=torch.float64)
        moved[0, j] += step
        moved[1, j] -= step
        low, high = samples.gain(moved).flip(0)
        assert float(low - high) / (2 * step) == pytest.approx(float(found[j]), rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_weights_the_wrong_way_round_are_rejected(monkeypatch, sign):
    monkeypatch.setitem(contribution.SIZES, "quick", Size(3, 60, 0))

    def learn(samples, rounds):
        return -sign * slope_at_one(samples)

    found = {check["claim"]: check for check in contribution.measure("quick", learn)["checks"]}
    learned = found["rank correlation with Shapley values: learned weights"]
    assert learned["holds"] is (sign > 0)
