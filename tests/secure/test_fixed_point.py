"""Fixed point: the sum modulo 2^32 against the sum in float64."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsift.secure import FixedPoint, exponent


@given(
    members=st.integers(3, 200),
    scale=st.integers(-60, 60),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_sum_is_that_of_the_numbers(members, scale, seed):
    values = np.random.default_rng(seed).standard_normal((members, 7)) * 2.0**scale
    form = FixedPoint(max(map(exponent, values)), members)
    total = np.zeros(7, np.uint32)
    for row in values:
        total += form.encode(row)
    error = np.abs(form.decode(total) - values.sum(axis=0)).max()
    assert error <= form.unit * members / 2 * (1 + 1e-9)
    assert error <= 2.0**form.bound * members**2 / 2**30


def test_ten_members_are_exact_to_a_16th_bit():
    values = np.random.default_rng(0).standard_normal((10, 100_000))
    form = FixedPoint(exponent(values) + 3, 10)
    total = sum(form.encode(row) for row in values)
    largest = np.abs(values).max()
    assert np.abs(form.decode(total) - values.sum(axis=0)).max() <= 2**-16 * largest


@pytest.mark.parametrize("value", [1e30, -1e30, np.inf, -np.inf])
def test_what_is_too_large_is_cut_and_nothing_wraps(value):
    form = FixedPoint(0, 4)
    total = sum(form.encode(np.array([value])) for _ in range(4))
    assert form.decode(total)[0] == pytest.approx(np.sign(value) * 4, rel=1e-6)


def test_what_is_no_number_counts_as_zero():
    assert FixedPoint(0, 4).encode(np.array([np.nan]))[0] == 0


def test_exponents_are_the_least():
    assert exponent(np.array([0.75, -1.0])) == 0
    assert exponent(np.array([1.0001])) == 1
    assert exponent(np.array([0.0, np.nan, np.inf])) == exponent(np.zeros(0)) == -126
