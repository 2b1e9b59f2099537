"""Rice's code: round trips, its size beside the entropy, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsift.compress import rice
from fedsift.errors import WireError


@st.composite
def ascending(draw):
    length = draw(st.sampled_from([1, 20, 3000, 2**32]))
    chosen = draw(st.sets(st.integers(0, length - 1), max_size=30))
    return np.array(sorted(chosen), np.int64), length


@given(ascending())
def test_indices_come_back(case):
    indices, length = case
    data = rice.encode(indices, length)
    np.testing.assert_array_equal(rice.decode(memoryview(data), len(indices), length), indices)
    assert len(data) == rice.size(indices, length)
    assert rice.least_size(len(indices), length) <= len(data)


@pytest.mark.parametrize("rate", [3, 5, 10, 20, 50, 100, 1000])
def test_random_indices_take_within_a_tenth_of_a_bit_of_their_entropy(rate):
    d = 200_000
    k = d // rate
    indices = np.sort(np.random.default_rng(0).permutation(d)[:k])
    entropy = (math.lgamma(d + 1) - math.lgamma(k + 1) - math.lgamma(d - k + 1)) / math.log(2)
    assert entropy <= 8 * rice.size(indices, d) <= entropy + 0.1 * k + 16


@given(ascending())
def test_whatever_they_are_they_take_at_most_b_and_4_bits(case):
    indices, length = case
    b = rice.low_bits(len(indices), length)
    assert 8 * rice.size(indices, length) <= len(indices) * (b + 4) + 14


@given(st.binary(max_size=40), st.integers(0, 60), st.integers(0, 2**40))
def test_foreign_bytes_are_refused_or_are_the_code_of_what_they_say(data, count, length):
    if len(data) < rice.least_size(count, length):
        return  # the wire refuses these before
    try:
        indices = rice.decode(memoryview(data), count, length)
    except WireError:
        return
    assert rice.encode(indices, length) == data
