"""The dimension of clouds of known dimension, and of three points by hand."""

import math

import pytest
import torch

from fedsift.problem.intrinsic_dimension import mean_dimension
from fedsift.randomness import generator


@pytest.mark.parametrize("d", [1, 2, 4])
def test_a_uniform_cloud_has_about_its_own_dimension(d):
    cloud = torch.rand(800, d, generator=generator(0, "cloud")) @ torch.eye(d, 6)
    assert mean_dimension(cloud) == pytest.approx(d, rel=0.15)


def test_three_points_on_a_line():
    # Distances to the two others: (1, 4), (1, 3), (3, 4); log of the ratios, halved.
    expected = sum(2 / math.log(ratio) for ratio in (4, 3, 4 / 3)) / 3
    points = torch.tensor([[0.0], [1.0], [4.0]])
    assert mean_dimension(points) == pytest.approx(expected)


@pytest.mark.parametrize("points", [torch.zeros(2, 3), torch.zeros(0, 3)])
def test_too_few_points_have_no_dimension(points):
    assert mean_dimension(points) == 0.0


def test_equal_points_have_a_finite_one():
    assert math.isfinite(mean_dimension(torch.ones(30, 3)))
