"""The contract of every row of the table of compressors."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsift.compress import (
    COMPRESSORS,
    ClientFeedback,
    NoFeedback,
    SketchFeedback,
    feedback_for,
    from_spec,
    rate_of,
    wire,
)
from fedsift.errors import InputError
from fedsift.randomness import generator

every_compressor = pytest.mark.parametrize("name", COMPRESSORS)
every_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def vector(length: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(length, generator=generator(0, length), dtype=dtype)


def same(a, b) -> bool:
    return wire.encode(a) == wire.encode(b)


@every_compressor
@every_dtype
def test_the_round_trip_keeps_length_and_dtype(make, name, dtype):
    compressor = make(name, 100, rate=4)
    out = compressor.decompress(compressor.compress(vector(100, dtype)))
    assert out.shape == (100,)
    assert out.dtype == dtype


@every_compressor
def test_compress_gives_the_same_bits_again_and_leaves_its_input_alone(make, name):
    compressor, g = make(name, 20_000, rate=10), vector(20_000, torch.float32)
    before = g.clone()
    assert same(compressor.compress(g), compressor.compress(g))
    assert torch.equal(g, before)


@every_compressor
@given(length=st.integers(1, 300), rate=st.floats(1, 50), seed=st.integers(0, 2**64 - 1))
def test_numbers_are_what_is_sent(make, name, length, rate, seed):
    compressor = make(name, length, rate, sketch_rows=3, seed=seed)
    payload = compressor.compress(vector(length, torch.float32))

    tensors = [payload] if isinstance(payload, torch.Tensor) else vars(payload).values()
    sent = [t.numel() for t in tensors if isinstance(t, torch.Tensor) and t.is_floating_point()]
    assert sum(sent) == compressor.numbers
    assert rate_of(compressor) == length / compressor.numbers


@every_compressor
@given(length=st.integers(1, 300), rate=st.floats(1, 50), seed=st.integers(0, 2**64 - 1))
def test_a_spec_through_json_builds_the_same_compressor(make, name, length, rate, seed):
    compressor = make(name, length, rate, sketch_rows=3, seed=seed)

    other = from_spec(json.loads(json.dumps(compressor.spec())))

    assert other.spec() == compressor.spec()
    payload = compressor.compress(vector(length))
    assert same(other.compress(vector(length)), payload)
    assert torch.equal(other.decompress(payload), compressor.decompress(payload))


@every_compressor
def test_a_gradient_graph_is_not_carried_along(make, name):
    compressor = make(name, 10, rate=2)
    payload = compressor.compress(vector(10).requires_grad_())
    assert not compressor.decompress(payload).requires_grad


@every_compressor
@pytest.mark.parametrize(
    "g", [torch.zeros(9), torch.zeros(10, 1), torch.zeros(10, dtype=torch.int64)]
)
def test_what_is_not_a_vector_of_the_length_is_refused(make, name, g):
    with pytest.raises(InputError):
        make(name, 10, rate=2).compress(g)


@every_compressor
def test_the_payload_of_another_compressor_is_refused(make, name):
    compressor = make(name, 10, rate=2)
    for other in COMPRESSORS:
        for length in (10, 20):
            if (other, length) != (name, 10):
                payload = make(other, length, rate=2).compress(vector(length))
                with pytest.raises(InputError):
                    compressor.decompress(payload)


@every_compressor
def test_a_length_below_one_is_refused(make, name):
    with pytest.raises(InputError):
        make(name, 0, rate=2)


@pytest.mark.parametrize("name", ["topk", "count-sketch"])
@pytest.mark.parametrize("rate", [0.5, 0, -1, float("nan")])
def test_a_rate_below_one_is_refused(make, name, rate):
    with pytest.raises(InputError, match="rate"):
        make(name, 10, rate)


@every_compressor
def test_a_huge_rate_still_sends_something(make, name):
    assert make(name, 10, rate=1e300).numbers >= 1


@pytest.mark.parametrize(
    ("name", "feedback"),
    [("identity", NoFeedback), ("topk", ClientFeedback), ("count-sketch", SketchFeedback)],
)
def test_where_the_error_is_remembered(make, name, feedback):
    compressor = make(name, 10, rate=2)
    assert feedback_for(compressor) == feedback(compressor)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"name": "gzip", "length": 3},
        {"name": ["topk"], "length": 3, "k": 1},
        {"name": "topk", "length": 3},
        {"name": "topk", "length": 3, "k": 1, "seed": 0},
        {"name": "topk", "length": 3, "k": "1"},
        {"name": "topk", "length": 3, "k": True},
        {"name": "topk", "length": 3, "k": 4},
    ],
)
def test_a_spec_that_cannot_be_built_is_refused(spec):
    with pytest.raises(InputError):
        from_spec(spec)
