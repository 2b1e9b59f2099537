"""What a site answers, against dense algebra."""

import json
from dataclasses import replace

import pytest
import torch

from fedsift.client import Client, answer, initial_state
from fedsift.compress import CountSketch, Identity, SparseEmbedding, TopK
from fedsift.messages import Request
from fedsift.problem import cross_product
from fedsift.problem.curvature import CURVATURES


def _product(conv, compressor, **changes):
    scalars = {
        "curvature": "gauss-newton",
        "damping": 0.0,
        "curvature_batch": 0,
        "compressor": json.dumps(compressor.spec()),
        "feedback": "listing",
        "step": 0.5,
        "epoch": 0,
        "fresh": True,
        "residual_seed": 7,
        "residual_damping": 0.0,
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
    monkeypatch.setattr("fedsift.client.passes.pass_length", lambda *_: 5)
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
    later, _ = answer(site, kept, _product(conv, compressor, epoch=1))
    torch.testing.assert_close(later.arrays["product"].values, compressor.compress(exact).values)


def test_the_witness_sees_the_product_before_anything_is_left_out(conv):
    site, state = _site(conv)
    reply, _ = answer(site, state, _product(conv, TopK(len(conv.y), 1), residual_seed=5))
    exact = CountSketch(len(conv.y), 10, 32, 5).compress(_operator(conv).product(conv.v))
    torch.testing.assert_close(reply.arrays["residual"].table, exact.table)


def test_ef21_sends_what_has_changed_and_the_whole_when_it_comes_late(conv):
    site, state = _site(conv)
    compressor, exact = TopK(len(conv.y), 5), _operator(conv).product(conv.v)
    first, kept = answer(site, state, _product(conv, compressor, feedback="ef21"))
    torch.testing.assert_close(kept.error, compressor.decompress(first.arrays["product"]))
    again, _ = answer(site, kept, _product(conv, compressor, feedback="ef21", fresh=False))
    rest = compressor.compress(exact - kept.error)
    torch.testing.assert_close(again.arrays["product"].values, rest.values)
    late, whole = answer(
        site, kept, _product(conv, compressor, feedback="ef21", fresh=False, epoch=1)
    )
    torch.testing.assert_close(late.arrays["product"], exact)
    assert torch.equal(whole.error, late.arrays["product"])


def test_the_gradient_form_compresses_the_share_of_the_gradient(conv):
    site, state = _site(conv)
    compressor, right = TopK(len(conv.y), 5), conv.y.cos()
    request = _product(conv, compressor, feedback="gradient")
    reply, _ = answer(site, state, replace(request, arrays={**request.arrays, "right": right}))
    wanted = compressor.compress(0.5 * (_operator(conv).product(conv.v) - right))
    torch.testing.assert_close(reply.arrays["product"].values, wanted.values)


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
    monkeypatch.setattr("fedsift.client.passes.pass_length", lambda *_: 5)
    site, state = _site(conv)
    arrays, scalars = {"y": conv.y, "v": conv.v}, {}
    v = conv.v
    if sent == "omega":
        omega = torch.arange(1.0, 7.0).double()
        v = SparseEmbedding(6, len(conv.y), 4).transpose_apply(omega)
        arrays, scalars = {"y": conv.y, "omega": omega}, {"r1": 6, "seed1": 4}
    step = {"outer_lr": 0.2, "outer_rule": "gradient", "pace": 0.0, "total_samples": 24}
    step |= {"weight_mean": 0.8, "outer_rms": 0.0}
    reply, after = answer(site, state, Request("outer", 0, arrays, {**scalars, **step}))
    cross = cross_product(conv.problem, conv.x, conv.y, conv.batch, v)
    expected = (conv.x + 0.2 * 0.5 * cross).clamp(0, 1)  # N_m / N = 12 / 24
    torch.testing.assert_close(after.x, expected)
    assert not torch.equal(after.x, conv.x)
    assert reply.arrays == {}
    assert set(reply.scalars) == {"outer_square"}
    assert abs(reply.scalars["outer_square"] - float((0.5 * cross).square().mean())) < 1e-12
    torch.testing.assert_close(after.average, 0.8 * state.average + 0.2 * expected)


def test_a_fault_is_an_error_reply_and_changes_nothing(conv):
    site, state = _site(conv)
    reply, after = answer(site, state, Request("train", 0, {}, {}))
    assert "before a model; send y first" in (reply.error or "")
    assert after is state
