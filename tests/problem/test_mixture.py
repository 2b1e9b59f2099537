"""Two groups of points, against scikit-learn and by sight."""

import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture

from fedsift.problem.mixture import two_groups
from fedsift.randomness import generator


def drawn(*groups, width=1):
    source = generator(0, "mixture")
    rows = [m + s * torch.randn(n, width, generator=source).double() for n, m, s in groups]
    return torch.cat(rows)


def test_two_clusters_are_told_apart():
    found = two_groups(drawn((30, 5.0, 0.4), (20, 1.0, 0.2)))
    assert found.separate
    assert (found.upper > 0.5).tolist() == [True] * 30 + [False] * 20


def test_overlapping_groups_have_scikit_learn_s_probabilities():
    points = drawn((300, 0.0, 1.0), (200, 3.0, 0.7), width=2)
    theirs = GaussianMixture(2, covariance_type="diag", tol=1e-9, max_iter=500, random_state=0)
    p = theirs.fit(points.numpy()).predict_proba(points.numpy())
    expected = p[:, int(np.argmax(theirs.means_.mean(axis=1)))]
    np.testing.assert_allclose(two_groups(points).upper.numpy(), expected, atol=2e-3)


@pytest.mark.parametrize("count", [10, 200])
def test_one_gaussian_is_one_group(count):
    assert not two_groups(drawn((count, 2.0, 0.5))).separate


@pytest.mark.parametrize("points", [torch.ones(5), torch.ones(1), torch.zeros(0)])
def test_points_that_are_equal_are_all_of_the_lower_group(points):
    found = two_groups(points)
    assert (found.upper.tolist(), found.separate) == ([0.0] * len(points), False)


def test_three_points_are_too_few_to_tell():
    assert not two_groups(torch.tensor([0.1, 0.11, 7.0])).separate


def test_a_single_point_far_away_is_a_group():
    found = two_groups(torch.tensor([0.1, 0.11, 0.09, 0.1, 0.12, 7.0]))
    assert found.upper.round().tolist() == [0, 0, 0, 0, 0, 1]
