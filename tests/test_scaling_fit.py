"""The scaling benchmark's exponents, and the sizes of the models it measures."""

import numpy as np
import pytest
from benchmarks.scaling import exponent, perceptron


def test_exponent_of_a_power_law_is_its_power():
    sizes = [10, 100, 1_000]
    assert exponent(sizes, [3 * n**0.7 for n in sizes]) == pytest.approx(0.7)


def test_exponent_is_the_slope_of_the_least_squares_line_in_logarithms():
    sizes, seconds = [5, 10, 20, 40, 80], [0.9, 1.1, 2.7, 3.2, 9.0]
    slope, _ = np.polyfit(np.log(sizes), np.log(seconds), 1)
    assert exponent(sizes, seconds) == pytest.approx(slope)


@pytest.mark.parametrize("d", [10**4, 10**5, 10**6])
def test_the_perceptron_has_about_d_parameters(d):
    assert sum(p.numel() for p in perceptron(d).parameters()) == pytest.approx(d, rel=0.01)
