"""Models by differences, updates by Top-k: what clients have, what is owed, what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedsift.client.state import ClientState, Outcome
from fedsift.client.update import with_compressed_update
from fedsift.compress import Sparse, TopK
from fedsift.federation.compressed import CompressedFederation, Rates, next_version
from fedsift.federation.encoding import decode_request, encode_request
from fedsift.messages import Reply, Request
from fedsift.randomness import generator
from fedsift.versioned import ByDifference, Versioned

D = 1200
RATES = Rates(update=20.0, model=20.0)


def _vector(name, length=D):
    return torch.randn(length, generator=generator(0, name))


def _walk(steps, drift=0.1):
    y, found = _vector("start"), []
    for k in range(steps):
        y = y + drift * _vector(f"step {k}")
        found.append(y)
    return found


class Echo:
    """Clients that keep nothing and reply with what a function makes of the request."""

    names, sizes = {}, {0: 5, 1: 5}

    def __init__(self, reply=lambda client, request: {}):
        self.reply, self.asked = reply, []

    def ask(self, request, clients):
        self.asked.append(request)
        return [Reply(m, 5, self.reply(m, request)) for m in clients]


def _reference(models, k):
    """ŷ by numpy, in float32 with float16 values."""
    have = None
    for model in (m.numpy() for m in models):
        if have is None:
            have = model.astype(np.float16).astype(np.float32)
            continue
        gap = model - have
        at = np.sort(np.argsort(-np.abs(gap), kind="stable")[:k])
        exponent = np.frexp(np.abs(gap[at]).max())[1]
        small = (gap[at] * np.float32(2.0**-exponent)).astype(np.float16)
        have = have.copy()
        have[at] += small.astype(np.float32) * np.float32(2.0**exponent)
    return have


def test_clients_have_the_last_model_and_the_largest_changes():
    inner = Echo()
    layer = CompressedFederation(inner, replace(RATES, bits=16))
    models = [m / 8 for m in _walk(6)]  # below 1, so that the whole has the exponent of numpy
    for k, y in enumerate(models):
        layer.ask(Request("train", k, {"y": y}), [0])
    got = inner.asked[-1].arrays["y"]
    np.testing.assert_allclose(got.value.numpy(), _reference(models, D // 20), rtol=2e-3, atol=1e-4)
    assert len(got.difference.indices) == D // 20


def test_what_is_left_out_comes_later():
    """A model that stands still but for a last bit arrives in about twice ``rate`` steps."""
    y, sent = _vector("goal"), None
    _, sent = next_version(torch.zeros(D), sent, 20.0)
    for k in range(45):
        _, sent = next_version(y + 1e-6 * k, sent, 20.0)
    assert float((sent.value - y).norm() / y.norm()) < 1e-3


@pytest.mark.parametrize("heard", [{0, 1, 2, 3, 4, 5, 6, 7}, {0, 4, 7}, {7}, {2, 3, 7}])
def test_whatever_a_client_missed_it_ends_with_the_same_bits(heard):
    inner = Echo()
    layer, kept, known, labels = CompressedFederation(inner, RATES), {}, {}, []
    for k, y in enumerate(_walk(8)):
        layer.ask(Request("train", k, {"y": y}), [0])
        if k in heard:
            parts = encode_request(inner.asked[-1], known)
            request, kept = decode_request(parts, kept)
            known = {name: found.version for name, found in kept.items()}
            labels.append(next(name for name in parts if name.startswith("y")))
    value = inner.asked[-1].arrays["y"].value
    assert torch.equal(request.arrays["y"].view(torch.int32), value.view(torch.int32))
    lags = np.diff([-1, *sorted(heard)])
    assert labels == ["y", *("y+" if lag == 1 else "y=" for lag in lags[1:])]


def test_an_array_that_did_not_change_is_not_sent_again():
    inner, y = Echo(), _vector("y")
    layer = CompressedFederation(inner, RATES)
    for action in ("train", "product"):
        layer.ask(Request(action, 0, {"y": y.clone()}), [0])
    again = CompressedFederation(inner, RATES, layer.sent())  # the next round
    again.ask(Request("train", 1, {"y": y}), [0])
    versions = [request.arrays["y"].version for request in inner.asked]
    assert versions == [1, 1, 1]
    assert inner.asked[-1].num_bytes({"y": 1}) < 200


def test_small_arrays_and_models_that_are_only_asked_about_stay_as_they_are():
    inner = Echo()
    layer = CompressedFederation(inner, RATES)
    small, y, counts = torch.ones(999), _vector("y"), torch.ones(5000, dtype=torch.int64)
    layer.ask(Request("train", 0, {"small": small, "counts": counts}), [0])
    layer.ask(Request("count", 0, {"y": y}), [0])
    (first, second) = inner.asked
    assert first.arrays["small"] is small
    assert first.arrays["counts"] is counts
    assert second.arrays["y"] is y


def test_an_array_goes_whole_where_zero_is_nearer_than_what_clients_have():
    _, sent = next_version(_vector("v"), None, 20.0)
    back, sent = next_version(torch.zeros(D), sent, 20.0)
    assert back.difference is None
    assert not back.value.any()
    assert len(back.whole.indices) == 0  # in a few bytes
    on, _ = next_version(_vector("w"), sent, 20.0)  # from zero it goes by differences again
    assert on.difference is not None


def test_an_array_that_a_method_sends_by_difference_begins_anew_from_zero():
    _, sent = next_version(_vector("v"), None, 20.0, steady=True)
    assert int(sent.value.count_nonzero()) == D // 20
    anew, sent = next_version(-_vector("v"), sent, 20.0, steady=True)
    assert len(anew.whole.indices) == D // 20
    back, _ = next_version(torch.zeros(D), sent, 20.0, steady=True)
    assert len(back.whole.indices) == 0


def test_without_rates_only_what_a_method_sends_by_difference_is_compressed():
    inner = Echo()
    layer = CompressedFederation(inner)
    for k in range(2):
        v = ByDifference(_vector("v", 40) + 0.1 * k, 10.0)
        layer.ask(Request("step", k, {"y": _vector("y"), "v": v}), [0])
    arrays = inner.asked[-1].arrays
    assert torch.equal(arrays["y"].value, _vector("y"))
    assert arrays["y"].version == 1
    assert isinstance(arrays["v"], Versioned)
    assert (len(arrays["v"].difference.indices), arrays["v"].difference.bits) == (4, 0)
    assert "update_rate" not in inner.asked[-1].scalars


def _asking(rate=20.0, epoch=0):
    scalars = {"update_rate": rate, "update_bits": 16, "update_epoch": epoch}
    return Request("train", 0, {}, scalars)


def test_updates_and_what_is_owed_add_up():
    state, total, sent = ClientState(), torch.zeros(D), torch.zeros(D)
    for k in range(15):
        update = _vector(f"u{k}").reshape(30, 40)
        outcome = with_compressed_update(Outcome({"update": update}, {}, state), _asking())
        state, payload = outcome.state, outcome.arrays["update"]
        assert len(payload.indices) == D // 20
        total, sent = total + update.flatten(), sent + payload.dense()
    torch.testing.assert_close(sent + state.update_error, total, rtol=1e-4, atol=1e-4)


def test_another_epoch_owes_nothing():
    first = with_compressed_update(Outcome({"update": _vector("u")}, {}, ClientState()), _asking())
    quiet = Outcome({"update": torch.zeros(D)}, {}, first.state)
    same, other = (with_compressed_update(quiet, _asking(epoch=e)) for e in (0, 1))
    assert same.arrays["update"].values.any()
    assert not other.arrays["update"].values.any()


def test_a_diverged_update_is_sent_but_not_remembered():
    update = _vector("u").index_fill(0, torch.tensor([7]), torch.nan)
    outcome = with_compressed_update(Outcome({"update": update}, {}, ClientState()), _asking())
    assert bool(outcome.arrays["update"].values.isnan().any())
    assert not outcome.state.update_error.any()


def test_a_round_that_is_done_again_is_another_epoch():
    payload = TopK(D, 5).compress(_vector("u"))
    inner, epochs = Echo(lambda client, request: {"update": payload}), []
    layer = CompressedFederation(inner, RATES)
    request = Request("train", 0, {"y": _vector("y")})
    for clients in ([0], [1], [0], [1]):  # two groups of a round, then the same again
        layer.ask(request, clients)
    layer = CompressedFederation(inner, RATES, layer.sent())
    layer.ask(replace(request, round=1), [0, 1])
    epochs = [asked.scalars["update_epoch"] for asked in inner.asked]
    assert epochs == [0, 0, 1, 1, 1]


def test_methods_get_updates_dense_in_the_shape_of_what_was_sent():
    payload = TopK(D, 5).compress(_vector("u"))
    inner = Echo(lambda client, request: {"update": payload})
    layer = CompressedFederation(inner, RATES)
    (reply,) = layer.ask(Request("fold-step", 0, {"heads": _vector("y").reshape(2, 600)}), [0])
    assert torch.equal(reply.arrays["update"], payload.dense().reshape(2, 600))


def test_an_update_of_another_model_is_an_error_of_its_client():
    wrong = Sparse(torch.arange(2), torch.ones(2), D + 1)
    layer = CompressedFederation(Echo(lambda client, request: {"update": wrong}), RATES)
    (reply,) = layer.ask(Request("train", 0, {"y": _vector("y")}), [0])
    assert "another model" in reply.error
