"""Requests and replies as bytes: round trip, size, versions, refusals."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsift.compress import CountSketch, TopK, wire
from fedsift.errors import WireError
from fedsift.federation.encoding import (
    ENVELOPE,
    REQUEST_ID,
    Kept,
    RequestId,
    decode_reply,
    decode_request,
    encode_reply,
    encode_request,
    num_bytes,
)
from fedsift.messages import Reply, Request
from fedsift.randomness import generator
from fedsift.versioned import Versioned


def _vector(name, length=50):
    return torch.randn(length, generator=generator(0, name))


def test_a_request_comes_back_bit_for_bit():
    y = _vector("y")
    request = Request("train", 7, {"y": y}, {"lr": 0.1, "steps": 5, "rule": "é", "none": None})
    decoded, kept = decode_request(encode_request(request), {})
    assert (decoded.action, decoded.round, decoded.scalars) == ("train", 7, request.scalars)
    assert torch.equal(decoded.arrays["y"], y)
    assert kept == {}


@pytest.mark.parametrize("known", [None, 3, 4])
def test_the_bytes_of_a_request_are_those_that_are_counted(known):
    difference = TopK(50, 5).compress(_vector("d"))
    arrays = {"y": _vector("y"), "v": Versioned(_vector("v"), 5, difference)}
    request = Request("step", 2, arrays, {"step": 0.25})
    versions = {} if known is None else {"v": known}
    assert num_bytes(encode_request(request, versions)) == request.num_bytes(versions)


def test_the_bytes_of_a_reply_are_those_that_are_counted():
    product = CountSketch(50, rows=3, columns=4, seed=1).compress(_vector("p"))
    reply = Reply(2, 100, {"product": product, "update": _vector("u")}, {"loss": 0.5})
    parts = encode_reply(reply)
    assert num_bytes({**parts, REQUEST_ID: b"not counted"}) == reply.num_bytes()
    decoded = decode_reply(parts)
    assert (decoded.client, decoded.num_samples, decoded.scalars) == (2, 100, {"loss": 0.5})
    assert torch.equal(decoded.arrays["product"].table, product.table)


def test_an_error_travels():
    assert decode_reply(encode_reply(Reply(1, 2, error="no — not so"))).error == "no — not so"


def test_a_difference_gives_the_server_s_own_v():
    topk, last, now = TopK(50, 5), _vector("last"), _vector("now")
    difference = topk.compress(now - last)
    sent = last + topk.decompress(difference)
    request = Request("step", 1, {"v": Versioned(sent, 4, difference)})
    decoded, kept = decode_request(encode_request(request, {"v": 3}), {"v": Kept(last, 3)})
    assert torch.equal(decoded.arrays["v"], sent)
    assert (kept["v"].version, torch.equal(kept["v"].value, sent)) == (4, True)


def test_a_difference_to_a_version_that_is_not_here_is_refused():
    difference = TopK(50, 5).compress(_vector("d"))
    request = Request("step", 1, {"v": Versioned(_vector("v"), 4, difference)})
    with pytest.raises(WireError, match=r"version 4 of 'v'.*version 2"):
        decode_request(encode_request(request, {"v": 3}), {"v": Kept(_vector("v"), 2)})


@pytest.mark.parametrize(
    "difference", [TopK(40, 5).compress(torch.ones(40)), torch.ones(50), torch.ones(1, 50)]
)
def test_a_difference_of_another_shape_is_refused(difference):
    request = Request("step", 1, {"v": Versioned(_vector("v"), 4, difference)})
    with pytest.raises(WireError, match="does not fit the previous version"):
        decode_request(encode_request(request, {"v": 3}), {"v": Kept(_vector("v"), 3)})


def test_a_client_that_missed_versions_gets_the_numbers_that_changed():
    last, now, changed = _vector("last"), _vector("last"), torch.ones(50, dtype=torch.int32)
    now[[3, 9, 40]] = torch.tensor([1.0, -0.0, 2.0])
    changed[[3, 9, 40]] = torch.tensor([3, 5, 4], dtype=torch.int32)
    request = Request("step", 1, {"v": Versioned(now, 5, TopK(50, 1).compress(now), changed)})
    parts = encode_request(request, {"v": 2})
    decoded, kept = decode_request(parts, {"v": Kept(last, 2)})
    assert "v=" in parts
    assert torch.equal(decoded.arrays["v"].view(torch.int32), now.view(torch.int32))
    assert num_bytes(parts) == request.num_bytes({"v": 2})
    assert kept["v"].version == 5


def test_a_client_that_has_the_version_gets_nothing_of_the_array():
    request = Request("step", 1, {"v": Versioned(_vector("v"), 4)})
    parts = encode_request(request, {"v": 4})
    assert set(parts) == {ENVELOPE}
    decoded, _ = decode_request(parts, {"v": Kept(_vector("v"), 4)})
    assert torch.equal(decoded.arrays["v"], _vector("v"))
    with pytest.raises(WireError, match=r"version 4 of 'v'.*none"):
        decode_request(parts, {})


def test_a_whole_array_of_few_bits_keeps_its_shape():
    whole = TopK(50, 50, bits=16).compress(_vector("v"))
    value = whole.dense().reshape(5, 10)
    request = Request("step", 1, {"heads": Versioned(value, 1, whole=whole)})
    parts = encode_request(request)
    assert torch.equal(decode_request(parts, {})[0].arrays["heads"], value)
    assert num_bytes(parts) == request.num_bytes()
    assert len(parts["heads"]) < 50 * 2 + 50


@pytest.mark.parametrize(
    ("scalars", "names"),
    [
        ({"v_version": 4}, ["v", "v+"]),
        ({"v_version": "4"}, ["v"]),
        ({"v_version": 4, "v_shape": "7,7"}, ["v"]),
        ({"v_version": 4, "v_shape": "-2,x"}, ["v"]),
        ({}, ["v="]),
    ],
)
def test_versioned_arrays_that_make_no_sense_are_refused(scalars, names):
    envelope = wire.encode({"action": "step", "round": 0, **scalars})
    array = wire.encode(TopK(50, 5).compress(_vector("d")))
    with pytest.raises(WireError):
        decode_request({ENVELOPE: envelope, **dict.fromkeys(names, array)}, {})


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {ENVELOPE: b"PK\x03\x04"},
        {ENVELOPE: wire.encode({"action": "shell", "round": 0})},
        {ENVELOPE: wire.encode({"action": "train"})},
        {ENVELOPE: wire.encode({"action": "train", "round": 0}), "y": b"pickle"},
        {ENVELOPE: wire.encode({"action": "train", "round": 0}), "y": wire.encode({"a": 1})},
        {ENVELOPE: wire.encode({"action": "step", "round": 0}), "v+": wire.encode(torch.ones(3))},
        {ENVELOPE: wire.encode(torch.ones(2))},
    ],
)
def test_foreign_requests_are_refused(parts):
    with pytest.raises(WireError):
        decode_request(parts, {})


@given(st.dictionaries(st.sampled_from([ENVELOPE, "y", REQUEST_ID, "v+"]), st.binary(max_size=64)))
def test_foreign_bytes_are_refused_and_nothing_else_happens(parts):
    for decode in (decode_reply, lambda p: decode_request(p, {}), RequestId.decode):
        with pytest.raises(WireError):
            decode(parts)


def test_a_request_id_is_exact():
    request_id = RequestId("run", 3, 1, "train")
    assert RequestId.decode({REQUEST_ID: request_id.encode()}) == request_id
    with pytest.raises(WireError):
        RequestId.decode({REQUEST_ID: request_id.encode().replace(b"3", b"true")})
