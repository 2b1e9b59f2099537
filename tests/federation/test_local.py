"""The federation in process: order, bytes, errors."""

import pytest
import torch

from fedsift.client import Client
from fedsift.compress import wire
from fedsift.errors import InputError
from fedsift.federation import LocalFederation
from fedsift.messages import Request, Traffic
from fedsift.problem import FlatModel, Reweighting


def _request(case, k=0):
    scalars = {"steps": 2, "lr": 0.1, "batch_size": 3}
    return Request("train", k, {"y": case.y.float()}, scalars)


def _federation(case, order=(0, 1, 2)):
    problem = Reweighting(FlatModel(case.problem.model.to_module(case.y).float()))
    inputs, labels = case.batch.inputs.float(), case.batch.labels
    batch = type(case.batch).of(inputs, labels)
    parts = [batch.take(torch.arange(4 * m, 4 * m + 4)) for m in range(3)]
    parts = [type(case.batch).of(p.inputs, p.labels) for p in parts]
    return LocalFederation(Client(m, problem, parts[m], seed=3) for m in order)


def test_results_do_not_depend_on_the_order_of_clients(conv):
    first = _federation(conv).ask(_request(conv), [0, 1, 2])
    second = _federation(conv, order=(2, 0, 1)).ask(_request(conv), [1, 2, 0])
    assert [r.client for r in first] == [r.client for r in second] == [0, 1, 2]
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a.arrays["update"], b.arrays["update"])


def test_rounds_and_clients_draw_different_batches(conv):
    federation = _federation(conv)
    updates = [
        r.arrays["update"] for k in (0, 1) for r in federation.ask(_request(conv, k), [0, 1])
    ]
    assert len({tuple(u.tolist()) for u in updates}) == 4


def test_bytes_are_those_of_the_encoded_messages(conv):
    federation, request = _federation(conv), _request(conv)
    replies = federation.ask(request, [0, 2])
    envelope = {"action": "train", "round": 0, **request.scalars}
    down = len(wire.encode(envelope)) + len(wire.encode(request.arrays["y"]))
    up = sum(
        len(wire.encode({"client": r.client, "num_samples": r.num_samples, **r.scalars}))
        + len(wire.encode(r.arrays["update"]))
        for r in replies
    )
    traffic = federation.traffic
    assert (traffic.bytes_down, traffic.bytes_up, traffic.exchanges) == (2 * down, up, 1)


def test_only_asked_clients_have_a_state(conv):
    federation = _federation(conv)
    federation.ask(_request(conv), [1])
    assert list(federation.states) == [1]


def test_a_restored_federation_goes_on_like_the_one_that_was_kept(conv):
    first, second = _federation(conv), _federation(conv)
    first.ask(_request(conv), [0, 1])
    snapshot = first.snapshot()
    second.restore(snapshot)
    assert second.snapshot() == snapshot
    expected, found = (f.ask(_request(conv), [1, 2]) for f in (first, second))
    for a, b in zip(expected, found, strict=True):
        assert torch.equal(a.arrays["update"], b.arrays["update"])
    assert second.traffic == first.traffic


def test_a_snapshot_is_not_changed_by_later_requests(conv):
    federation = _federation(conv)
    before = federation.snapshot()
    federation.ask(_request(conv), [1])
    assert (before.clients, before.versions, before.traffic) == ({}, {}, Traffic())


def test_inspect_shows_the_arrays_of_a_state_without_y(conv):
    federation = _federation(conv)
    federation.ask(_request(conv), [1])
    state, shown = federation.state(1), federation.inspect(1)
    assert set(shown) == {"x", "average"}
    assert shown["x"] is state.x
    assert state.y is not None


def test_faults_are_sentences(conv):
    with pytest.raises(InputError, match="no client"):
        LocalFederation([])
    federation = _federation(conv)
    with pytest.raises(InputError, match="there is no client 9"):
        federation.state(9)
    (reply,) = federation.ask(Request("outer", 0, {}, {}), [0])
    assert reply.error == "client 0 got the request 'outer' before a model; send y first"


def test_models_of_past_rounds_are_forgotten(conv):
    federation = _federation(conv)
    for k, client in enumerate((0, 1, 2)):
        federation.ask(_request(conv, k), [client])
    assert [federation.state(m).y is None for m in range(3)] == [True, True, False]
