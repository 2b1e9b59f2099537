from __future__ import annotations

import contextlib
import json
import math
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedsift.compress import Sketch, Sparse
from fedsift.compress.rounding import rounded
from fedsift.compress.wire import DTYPES, decode, encode, size
from fedsift.errors import WireError

SEEDS = st.integers(0, 2**64 - 1)
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@st.composite
def tensors(draw, shapes=None):
    """Tensors of every dtype with arbitrary bits, so NaNs and infinities too."""
    dtype = draw(st.sampled_from(list(DTYPES.values())))
    if shapes is None:
        shapes = hnp.array_shapes(min_dims=0, max_dims=8, min_side=0, max_side=3)
    bits = draw(hnp.arrays(f"{'u' if dtype.itemsize == 1 else 'i'}{dtype.itemsize}", shapes))
    return torch.from_numpy(np.asarray(bits)).view(dtype)


@st.composite
def sparse_vectors(draw):
    top = draw(st.sampled_from([20, 2**16, 2**17 + 3, 2**32 - 1]))  # in blocks, and whole
    indices = sorted(draw(st.sets(st.integers(0, top), max_size=12)))
    values = draw(tensors(shapes=(len(indices),)))
    shortest = (indices or [-1])[-1] + 1
    length = draw(st.just(max(shortest, top)) | st.integers(shortest, 2**63))
    indices = torch.tensor(indices, dtype=torch.int64)
    if values.dtype not in {torch.float32, torch.float64}:
        return Sparse(indices, values, length)
    values, bits = rounded(values, draw(st.sampled_from([0, 8, 16])))
    return Sparse(indices, values, length, bits)


@st.composite
def sketches(draw):
    table = draw(tensors(shapes=hnp.array_shapes(min_dims=2, max_dims=2, min_side=0)))
    return Sketch(table, draw(st.integers(0, 2**64 - 1)), draw(SEEDS))


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
scalars = st.dictionaries(
    text, st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | text
)
anything = st.one_of(tensors(), sparse_vectors(), sketches(), scalars)


def assert_same_bits(a: torch.Tensor, b: torch.Tensor) -> None:
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    width = INTEGERS[a.dtype.itemsize]
    assert torch.equal(a.contiguous().view(width), b.contiguous().view(width))


def assert_same(a, b) -> None:
    assert type(a) is type(b)
    if isinstance(a, torch.Tensor):
        assert_same_bits(a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        assert [(type(v), repr(v)) for v in a.values()] == [(type(v), repr(v)) for v in b.values()]
    elif isinstance(a, Sparse):
        assert_same_bits(a.indices, b.indices)
        assert_same_bits(a.values, b.values)
        assert (a.length, a.bits) == (b.length, b.bits)
    else:
        assert_same_bits(a.table, b.table)
        assert (a.length, a.seed) == (b.length, b.seed)


@given(anything)
def test_everything_comes_back(payload):
    assert_same(decode(encode(payload)), payload)


@given(anything)
def test_size_is_the_length_of_the_encoding(payload):
    assert size(payload) == len(encode(payload))


@given(anything, st.data())
def test_any_truncation_is_refused(payload, data):
    whole = encode(payload)
    with pytest.raises(WireError):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(anything, st.binary(min_size=1, max_size=9))
def test_trailing_bytes_are_refused(payload, more):
    with pytest.raises(WireError, match="other bytes"):
        decode(encode(payload) + more)


@given(st.binary(max_size=60))
def test_random_bytes_raise_nothing_but_a_wire_error(data):
    for prefix in (b"", b"fsft\x04"):
        with contextlib.suppress(WireError):
            decode(prefix + data)


@given(anything, st.data())
def test_a_changed_byte_raises_nothing_but_a_wire_error(payload, data):
    whole = bytearray(encode(payload))
    place = data.draw(st.integers(0, min(len(whole), 40) - 1))
    whole[place] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError):
        decode(bytes(whole))


def raw_scalars(body: bytes) -> bytes:
    return struct.pack("<4s4BQ", b"fsft", 4, 4, 6, 1, len(body)) + body


@given(st.binary(max_size=40) | st.text('[]{}":,.\\u0eE-NaIntrlfs ', max_size=20).map(str.encode))
def test_scalars_that_are_not_json_raise_nothing_but_a_wire_error(body):
    with contextlib.suppress(WireError):
        decode(raw_scalars(body))


@pytest.mark.parametrize(
    "document",
    [
        "",
        "3",
        "[]",
        '["a", 1]',
        '{"a": [1]}',
        '{"a": {"b": 1}}',
        '{"a": {}}',
        '{"a": 1, "a": 2}',
        '{"a": 9223372036854775808}',
        '{"a": ' + "9" * 5000 + "}",
        '{"a": "\\ud800"}',
        "[" * 100_000,
    ],
)
def test_scalars_must_be_a_flat_object(document):
    with pytest.raises(WireError, match="scalar"):
        decode(raw_scalars(document.encode()))


@pytest.mark.parametrize(
    "scalars",
    [{"a": [1]}, {"a": torch.ones(1)}, {1: 2}, {"a": 2**63}, {"a": "\ud800"}, {"\ud800": 1}],
)
def test_scalars_that_would_not_come_back_are_refused(scalars):
    with pytest.raises(WireError, match="scalar"):
        encode(scalars)


def test_scalars_are_plain_json():
    data = encode({"loss": 0.5, "name": "ä", "done": True, "none": None})
    assert json.loads(data[16:]) == {"loss": 0.5, "name": "ä", "done": True, "none": None}


def test_nan_and_infinities_survive_among_scalars():
    back = decode(encode({"nan": math.nan, "inf": math.inf, "-inf": -math.inf}))
    assert math.isnan(back["nan"])
    assert (back["inf"], back["-inf"]) == (math.inf, -math.inf)


def test_the_layout_of_a_dense_tensor():
    """Written out by hand, so that no release changes it without a new version."""
    expected = struct.pack("<4s4B2Q3f", b"fsft", 4, 1, 1, 2, 1, 3, 1.0, -2.0, 0.5)
    assert encode(torch.tensor([[1.0, -2.0, 0.5]])) == expected


def test_the_layout_of_a_sparse_vector():
    """d / k = 5 gives b = 2: of the gaps 2, 0, 5 the low bits 10, 00, 01, then 1, 1 and 01."""
    payload = Sparse(torch.tensor([2, 3, 9]), torch.tensor([1.0, 2.0, 0.5]).double(), 15)
    expected = struct.pack("<4s4B3Q3d", b"fsft", 4, 2, 2, 1, 3, 15, 0, 1.0, 2.0, 0.5)
    assert encode(payload) == expected + bytes([0b01_00_10, 0b10_1_1])


def test_the_layout_of_a_sparse_vector_of_16_bits():
    """2^1 is the first power above the largest value; e travels as e + 2^15, 2^8 times."""
    payload = Sparse(torch.tensor([0, 1]), torch.tensor([1.0, -0.5]), 2, 16)
    form = 16 + 2**8 * (2**15 + 1)
    expected = struct.pack("<4s4B3Q2e", b"fsft", 4, 2, 1, 1, 2, 2, form, 0.5, -0.25)
    assert encode(payload) == expected + bytes([0b11])


@pytest.mark.parametrize("form", [1, 7, 16 + 2**8 * (2**15 + 1001), 16, 8 + 2**40, 2**63])
def test_a_form_of_values_that_is_not_ours_is_refused(form):
    header = struct.pack("<4s4B3Q", b"fsft", 4, 2, 1, 1, 2, 2, form)
    with pytest.raises(WireError, match="form"):
        decode(header + bytes([0, 60, 0, 60, 3]))


def test_the_layout_of_a_sketch():
    payload = Sketch(torch.tensor([[1.0], [2.0]]), 7, 2**64 - 1)
    expected = struct.pack("<4s4B4Q2f", b"fsft", 4, 3, 1, 2, 2, 1, 7, 2**64 - 1, 1.0, 2.0)
    assert encode(payload) == expected


HEADERS = {
    "magic": (b"fsfx", 3, 1, 1, 0),
    "version": (b"fsft", 1, 1, 1, 0),
    "kind 0": (b"fsft", 4, 0, 1, 0),
    "kind 9": (b"fsft", 4, 9, 1, 0),
    "dtype 0": (b"fsft", 4, 1, 0, 0),
    "dtype 7": (b"fsft", 4, 1, 7, 0),
    "9 dimensions": (b"fsft", 4, 1, 1, 9),
    "a sparse matrix": (b"fsft", 4, 2, 1, 2),
    "a sketch of one row": (b"fsft", 4, 3, 1, 1),
    "scalars of floats": (b"fsft", 4, 4, 1, 1),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_is_not_ours_is_refused(name):
    with pytest.raises(WireError, match=r"fedsift|unknown|dimensions|scalars"):
        decode(struct.pack("<4s4B", *HEADERS[name]) + bytes(88))


@pytest.mark.parametrize(
    "shape", [(2**62,), (2**64 - 1,), (2**40, 2**40), (0, 2**62, 4), (2**63, 0), (3,)]
)
def test_a_shape_that_the_data_do_not_fill_is_refused(shape):
    header = struct.pack(f"<4s4B{len(shape)}Q", b"fsft", 4, 1, 1, len(shape), *shape)
    with pytest.raises(WireError):
        decode(header + bytes(8))


@pytest.mark.parametrize("shape", [(0, 2**62, 4), (2**63, 0)])
def test_an_empty_tensor_that_no_machine_can_have_is_refused(shape):
    with pytest.raises(WireError, match="too large"):
        decode(struct.pack(f"<4s4B{len(shape)}Q", b"fsft", 4, 1, 1, len(shape), *shape))


def test_indices_beyond_the_length_are_refused():
    """Gaps are never negative, so indices always ascend."""
    data = struct.pack("<4s4B3Q2f", b"fsft", 4, 2, 1, 1, 2, 4, 0, 1.0, 1.0)
    with pytest.raises(WireError, match="ascending"):
        decode(data + bytes([0b10000_1]))  # 0 and 5


@pytest.mark.parametrize("indices", [[1, 1], [2, 1], [0, 4], [-1, 2], [1], [1.0, 2.0]])
def test_a_sparse_vector_that_would_not_come_back_is_refused(indices):
    with pytest.raises(WireError, match="ind"):
        encode(Sparse(torch.tensor(indices), torch.ones(2), 4))


def test_an_index_that_32_bits_cannot_hold_is_refused():
    with pytest.raises(WireError, match=r"below 2\^32"):
        encode(Sparse(torch.tensor([1, 2**32]), torch.ones(2), 2**33))


@pytest.mark.parametrize(
    "payload",
    [
        torch.ones(2, dtype=torch.complex64),
        torch.ones(2, dtype=torch.bool),
        torch.ones([1] * 9),
        Sparse(torch.zeros(1, 1).long(), torch.ones(1, 1), 4),
        Sketch(torch.ones(3), 4, 0),
        Sketch(torch.ones(3, 1), 4, -1),
        Sketch(torch.ones(3, 1), 4, 2**64),
        [1.0],
        None,
    ],
)
def test_what_has_no_encoding_is_refused(payload):
    for act in (encode, size):
        with pytest.raises(WireError):
            act(payload)


def test_the_limit_counts_all_bytes():
    data = encode(torch.ones(4))
    assert decode(data, limit=len(data)).tolist() == [1] * 4
    with pytest.raises(WireError, match="limit of 31"):
        decode(data, limit=len(data) - 1)


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_decoded_tensors_own_their_memory(buffer):
    data = encode(torch.ones(4))
    source = bytearray(data)
    back = decode(memoryview(source) if buffer is memoryview else buffer(source))
    back += 1
    assert bytes(source) == data
    source[-4:] = bytes(4)
    assert back.tolist() == [2] * 4


def test_strides_and_graphs_do_not_matter():
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    assert_same_bits(decode(encode(x.T)), x.detach().T)
