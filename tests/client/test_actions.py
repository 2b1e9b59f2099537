"""What a site answers, against dense algebra."""

import json
from dataclasses import replace

import pytest
import torch

from fedsift.client import Client, answer, initial_state
from fedsift.compress import Identity, SparseEmbedding, TopK
from fedsift.messages import Request
from fedsift.problem import cross_product
from fedsift.problem.curvature import CURVATURES


def _product(conv, compressor, **changes):
    scalars = {
        "curvature": "gauss-newton",
        "damping": 0.0,
        "curvature_batch": 0,
        "compressor": json.dumps(compressor.spec()),
        "step": 0.5,
        "fresh": True,
        **changes,
    }
    return Request("product", 0, {"y": conv.y, "v": conv.v}, scalars)


def _site(conv):
    site = Client(0, conv.problem, conv.batch)
    return site, replace(initial_state(site), x=conv.x)


def _operator(conv, kind="gauss-newton", damping=0.0):
    return CURVATURES[kind].once(conv.problem, conv.x, conv.y, conv.batch, damping)


@pytest.mark.parametrize("kind", CURVATURES)
def test_product_is_the_curvature_over_all_samples(conv, monkeypatch, kind):
    # 12 samples: three unequal parts
    monkeypatch.setattr("fedsift.client.passes.chunk_length", lambda _: 5)
    site, state = _site(conv)
    request = _product(conv, Identity(len(conv.y)), curvature=kind)
    reply, _ = answer(site, state, request)
    expected = _operator(conv, kind).product(conv.v)
    torch.testing.assert_close(reply.arrays["product"], expected)
    assert abs(reply.scalars["curvature"] - float(conv.v @ expected)) < 1e-9


def test_a_curvature_batch_is_drawn_anew_every_round(conv):
    site, state = _site(conv)
    request = _product(conv, Identity(len(conv.y)), curvature_batch=4)
    first, again, later = (
        answer(site, state, replace(request, round=k))[0].arrays["product"] for k in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, later)


def test_error_memory_stays_and_is_dropped_on_demand(conv):
    site, state = _site(conv)
    compressor = TopK(len(conv.y), 5)
    _, kept = answer(site, state, _product(conv, compressor))
    reply, _ = answer(site, kept, _product(conv, compressor, fresh=False))
    exact = 0.5 * _operator(conv).product(conv.v)
    expected = compressor.compress(exact + kept.error)
    torch.testing.assert_close(reply.arrays["product"].values, expected.values)
    fresh, _ = answer(site, kept, _product(conv, compressor))
    torch.testing.assert_close(fresh.arrays["product"].values, compressor.compress(exact).values)


def test_sketch_is_the_matrix_between_two_embeddings(conv):
    site, state = _site(conv)
    scalars = {"curvature": "gauss-newton", "damping": 0.3, "curvature_batch": 0}
    sizes = {"r1": 6, "r2": 9, "seed1": 11, "seed2": 12, "system": "least-squares"}
    request = Request("sketch", 0, {"y": conv.y}, {**scalars, **sizes})
    reply, _ = answer(site, state, request)
    d = len(conv.y)
    H = torch.stack([_operator(conv, damping=0.3).product(e) for e in torch.eye(d).double()])
    S1, S2 = SparseEmbedding(6, d, 11).dense(), SparseEmbedding(9, d, 12).dense()
    torch.testing.assert_close(reply.arrays["sketch"], S2 @ H @ S1.T)


@pytest.mark.parametrize("sent", ["v", "omega"])
def test_outer_step_moves_the_clients_own_weights(conv, monkeypatch, sent):
    monkeypatch.setattr("fedsift.client.passes.chunk_length", lambda _: 5)
    site, state = _site(conv)
    arrays, scalars = {"y": conv.y, "v": conv.v}, {}
    v = conv.v
    if sent == "omega":
        omega = torch.arange(1.0, 7.0).double()
        v = SparseEmbedding(6, len(conv.y), 4).transpose_apply(omega)
        arrays, scalars = {"y": conv.y, "omega": omega}, {"r1": 6, "seed1": 4}
    step = {"outer_lr": 0.2, "outer_rule": "gradient", "pace": 0.0, "total_samples": 24}
    reply, after = answer(site, state, Request("outer", 0, arrays, {**scalars, **step}))
    cross = cross_product(conv.problem, conv.x, conv.y, conv.batch, v)
    expected = (conv.x + 0.2 * 0.5 * cross).clamp(0, 1)  # N_m / N = 12 / 24
    torch.testing.assert_close(after.x, expected)
    assert not torch.equal(after.x, conv.x)
    assert reply.arrays == {}
    assert reply.scalars == {}
    torch.testing.assert_close(after.average, 0.9 * state.average + 0.1 * expected)


def test_a_fault_is_an_error_reply_and_changes_nothing(conv):
    site, state = _site(conv)
    reply, after = answer(site, state, Request("train", 0, {}, {}))
    assert "before a model; send y first" in (reply.error or "")
    assert after is state
