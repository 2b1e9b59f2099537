"""Huffman's code: round trips, its size beside the entropy, refusals, no bombs."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsift.compress import huffman
from fedsift.errors import WireError


@given(st.binary(max_size=60), st.binary(max_size=9), st.sampled_from([1, 2]))
def test_numbers_come_back_and_what_follows_too(data, more, width):
    data = data[: len(data) // width * width]
    coded = huffman.encode(memoryview(data), width)
    back, rest = huffman.decode(memoryview(coded + more), width, len(data) // width)
    assert (bytes(back), bytes(rest)) == (data, more)


def test_bytes_take_within_half_a_bit_of_their_entropy():
    drawn = np.random.default_rng(0).geometric(0.2, 5000).clip(max=255).astype(np.uint8)
    shares = np.bincount(drawn) / len(drawn)
    shares = shares[shares > 0]
    entropy = -(shares * np.log2(shares)).sum()
    coded = huffman.encode(memoryview(drawn), 1)
    assert entropy <= 8 * len(coded) / len(drawn) <= entropy + 0.5


@pytest.mark.parametrize("count", [0, 4, 6, 2**40])
def test_another_number_of_values_is_refused(count):
    coded = huffman.encode(memoryview(b"aabca"), 1)
    with pytest.raises(WireError, match="truncated"):
        huffman.decode(memoryview(coded), 1, count)


@given(st.binary(max_size=40), st.sampled_from([1, 2]), st.integers(0, 50))
def test_foreign_bytes_raise_nothing_but_a_wire_error(data, width, count):
    try:
        back, _ = huffman.decode(memoryview(data), width, count)
    except WireError:
        return
    assert len(back) == width * count


def test_no_more_is_unpacked_than_was_announced():
    bomb = zlib.compressobj(9, zlib.DEFLATED, huffman.RAW)
    data = bomb.compress(bytes(10**7)) + bomb.flush()
    with pytest.raises(WireError):
        huffman.decode(memoryview(data), 1, 1000)
