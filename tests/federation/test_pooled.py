"""One pass over the cohort's samples, against every client on its own."""

import json
from dataclasses import replace

import pytest
import torch

from fedsift.client import Client, answer
from fedsift.compress import CountSketch, Identity, TopK
from fedsift.federation import LocalFederation
from fedsift.messages import Answers, Request
from fedsift.problem import LabelledBatch

CUTS = ((0, 2), (2, 7), (7, 12))  # unequal clients


def _federations(conv, cuts=CUTS):
    """Return two federations with the same clients and weights, pooled and not."""
    found = []
    for pool in (True, False):
        sites = [
            Client(
                m, conv.problem, LabelledBatch.of(conv.batch.inputs[a:b], conv.batch.labels[a:b])
            )
            for m, (a, b) in enumerate(cuts)
        ]
        federation = LocalFederation(sites, pool=pool)
        for m, (a, b) in enumerate(cuts):
            state = federation.state(m)
            federation.states[m] = replace(state, x=conv.x[a:b], average=conv.x[a:b])
        found.append(federation)
    return found


def _request(conv, action, compressor, **changes):
    scalars = {
        "curvature": "gauss-newton",
        "damping": 0.1,
        "curvature_batch": 3,
        "compressor": json.dumps(compressor.spec()),
        "feedback": "listing",
        "step": 0.5,
        "epoch": 0,
        "fresh": True,
        "residual_seed": 7,
        "residual_damping": 0.0,
        "steps": 2,
        "lr": 0.1,
        "batch_size": 2,
        "outer_lr": 0.05,
        "outer_rule": "scale-free",
        "pace": 0.02,
        "weight_mean": 0.9,
        "outer_rms": 0.0,
        "total_samples": 12,
        "scored": 0,
        "differences": False,
        "outer_too": False,
        **changes,
    }
    return Request(action, 0, {"y": conv.y, "v": conv.v}, scalars)


def _mean_product(replies, compressor):
    answers = Answers(tuple(replies))
    parts = [compressor.decompress(p) for p in answers.payloads("product")]
    return sum(s * p for s, p in zip(answers.shares, parts, strict=True))


@pytest.mark.parametrize("kind", ["gauss-newton", "hessian"])
@pytest.mark.parametrize("action", ["product", "step"])
@pytest.mark.parametrize("drawn", [0, 3])
def test_the_mean_product_is_the_same(conv, action, kind, drawn):
    identity = Identity(len(conv.y))
    request = _request(conv, action, identity, curvature=kind, curvature_batch=drawn)
    a, b = (_mean_product(f.ask(request, [0, 1, 2]), identity) for f in _federations(conv))
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("action", ["outer", "step"])
@pytest.mark.parametrize("drawn", [0, 3])
def test_every_client_moves_its_weights_the_same_way(conv, action, drawn):
    request = _request(conv, action, Identity(len(conv.y)), curvature_batch=drawn)
    pooled, apart = _federations(conv)
    for federation in (pooled, apart):
        federation.ask(request, [0, 1, 2])
    for m in range(3):
        for name in ("x", "average", "agreement"):
            ours, theirs = (getattr(f.state(m), name) for f in (pooled, apart))
            torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
        assert not torch.equal(pooled.state(m).x, conv.x[slice(*CUTS[m])])


@pytest.mark.parametrize("scored", [0, 3, 4])
@pytest.mark.parametrize("batch_size", [0, 2])
def test_stacked_clients_follow_v_as_each_does_alone(conv, scored, batch_size):
    """Sites of 4, 4 and 4 samples: local steps of all three, v along them, in one pass."""
    changes = {"differences": True, "scored": scored, "batch_size": batch_size, "steps": 3}
    request = _request(conv, "step", TopK(len(conv.y), 9), curvature_batch=2, **changes)
    cuts = ((0, 4), (4, 8), (8, 12))
    pooled, apart = _federations(conv, cuts)
    replies = [f.ask(request, [0, 1, 2]) for f in (pooled, apart)]
    for ours, theirs in zip(*replies, strict=True):
        update, product = (
            [r.arrays["update"] for r in (ours, theirs)],
            [r.arrays["product"].values for r in (ours, theirs)],
        )
        torch.testing.assert_close(*update, rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(*product, rtol=1e-6, atol=1e-7)
    for m in range(3):
        ours, theirs = (f.state(m) for f in (pooled, apart))
        torch.testing.assert_close(ours.x, theirs.x, rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(ours.agreement, theirs.agreement, rtol=1e-6, atol=1e-9)
        if batch_size and scored == 3:
            assert int((ours.x != conv.x[slice(*cuts[m])]).sum()) == 3


def test_a_sketch_of_the_cohort_is_the_mean_of_the_sketches(conv):
    sketch = CountSketch.at_rate(len(conv.y), 2, 3, 0)
    request = _request(conv, "step", sketch)
    tables = []
    for federation in _federations(conv):
        answers = Answers(tuple(federation.ask(request, [0, 1, 2])))
        parts = zip(answers.shares, answers.payloads("product"), strict=True)
        tables.append(sum(share * payload.table for share, payload in parts))
    torch.testing.assert_close(*tables, rtol=1e-10, atol=1e-12)


def test_top_k_is_not_linear_and_is_left_to_the_clients(conv):
    request = _request(conv, "step", TopK(len(conv.y), 9))
    pooled, apart = (f.ask(request, [0, 1, 2]) for f in _federations(conv))
    for a, b in zip(pooled, apart, strict=True):
        assert torch.equal(a.arrays["product"].values, b.arrays["product"].values)


def test_both_send_the_same_number_of_bytes(conv):
    sketch = CountSketch.at_rate(len(conv.y), 2, 3, 0)
    traffics = []
    for federation in _federations(conv):
        federation.ask(_request(conv, "step", sketch), [0, 2])
        traffics.append(federation.traffic)
    a, b = traffics
    assert (a.bytes_down, a.exchanges) == (b.bytes_down, b.exchanges)
    assert abs(a.bytes_up - b.bytes_up) < 10  # a scalar is text: its digits may differ in number


def test_clients_at_different_models_are_not_pooled(conv):
    identity, means = Identity(len(conv.y)), []
    request = replace(_request(conv, "product", identity), arrays={"v": conv.v})
    for federation in _federations(conv):
        for m in range(3):
            state = federation.state(m)
            federation.states[m] = replace(state, y=conv.y if m else 0.5 * conv.y)
        means.append(_mean_product(federation.ask(request, [0, 1, 2]), identity))
    torch.testing.assert_close(*means, rtol=1e-10, atol=1e-12)


def test_pooling_is_one_pass(conv, monkeypatch):
    calls = []
    forward = type(conv.problem).outputs

    def counted(self, y, batch):
        calls.append(len(batch))
        return forward(self, y, batch)

    monkeypatch.setattr(type(conv.problem), "outputs", counted)
    request = _request(conv, "outer", Identity(len(conv.y)))
    _federations(conv)[0].ask(request, [0, 1, 2])
    assert calls == [12]


def test_an_unpooled_federation_answers_bit_for_bit_as_the_site_does(conv):
    request = _request(conv, "step", CountSketch.at_rate(len(conv.y), 2, 3, 0))
    federation = _federations(conv)[1]
    expected = [answer(federation.clients[m], federation.state(m), request)[0] for m in range(3)]
    for a, b in zip(federation.ask(request, [0, 1, 2]), expected, strict=True):
        assert torch.equal(a.arrays["product"].table, b.arrays["product"].table)
        assert torch.equal(a.arrays["update"], b.arrays["update"])
