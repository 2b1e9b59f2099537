"""Numbers in 16 or 8 bits: what is kept, what is exact, what stays as it is."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedsift.compress import Sparse, TopK
from fedsift.compress.rounding import FORMS, rounded
from fedsift.compress.wire import decode, encode
from fedsift.errors import InputError, WireError

FINITE = st.floats(allow_nan=False, allow_infinity=False, width=32)
VECTORS = hnp.arrays(np.float32, hnp.array_shapes(max_dims=1, max_side=20), elements=FINITE)


@pytest.mark.parametrize(("bits", "precision"), [(16, 2.0**-11), (8, 2.0**-4)])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_the_relative_error_is_that_of_the_precision(bits, precision, scale):
    values = scale * torch.linspace(0.01, 1.0, 500)
    found, used = rounded(values, bits)
    assert used == bits
    assert float(((found - values).double() / values.double()).abs().max()) <= precision


@given(VECTORS, st.sampled_from(list(FORMS)))
def test_rounded_values_travel_in_their_bits_and_come_back(vector, bits):
    values, used = rounded(torch.from_numpy(vector), bits)
    again, _ = rounded(values, bits)
    assert torch.equal(again, values)
    payload = Sparse(torch.arange(len(values)), values, len(values), used)
    back = decode(encode(payload))
    assert torch.equal(back.values, values)
    assert (back.bits, back.values.dtype) == (bits, values.dtype)


def test_float16_is_numpy_s_own():
    values = torch.linspace(-0.9, 0.9, 301)
    expected = values.numpy().astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(rounded(values, 16)[0].numpy(), expected)


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_what_is_not_finite_is_sent_and_noticed(odd):
    payload = TopK(4, 2, bits=16).compress(torch.tensor([0.1, odd, 0.2, 0.0]))
    assert payload.bits == 0
    assert not bool(torch.isfinite(decode(encode(payload)).dense()).all())


def test_values_that_were_not_rounded_are_refused():
    with pytest.raises(WireError, match="not rounded to 16 bits"):
        encode(Sparse(torch.arange(2), torch.tensor([1.0, 1 / 3]), 4, 16))


def test_bits_without_a_form_are_refused():
    with pytest.raises(InputError, match="bits is 7"):
        TopK(10, 2, bits=7)
