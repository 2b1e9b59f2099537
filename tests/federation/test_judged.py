"""Replies are judged: what is wrong is dropped and named, what is right passes bit for bit."""

from dataclasses import replace

import pytest
import torch

from fedsift.client import ACTIONS
from fedsift.client.replies import REPLIES
from fedsift.compress import Sparse
from fedsift.experiment.loop import compressed_round, judge_of, judged_round, rounds
from fedsift.experiment.setup import from_config
from fedsift.federation.judged import STRIKES, Judge, JudgedFederation
from fedsift.federation.robust import RobustKeys
from fedsift.messages import Request
from tiny import tiny_config

TEN = {"clients": 10, "samples_per_client": 20, "rounds": 4, "seed": 2, "eval_every": 4}
METHODS = ("fedavg", "single-loop", "posterior", "iter-sketch", "first-order", "preprocess")


class Lying:
    """A federation of which client 0 changes its replies."""

    def __init__(self, inner, lie, sizes=None):
        self.inner, self.lie, self._sizes = inner, lie, sizes or {}

    def __getattr__(self, name):
        return getattr(self.inner, name)

    @property
    def sizes(self):
        return {**self.inner.sizes, **self._sizes}

    def ask(self, request, clients):
        replies = self.inner.ask(request, clients)
        return [self.lie(r) if r.client == 0 and r.error is None else r for r in replies]


def with_array(name, change):
    return lambda r: replace(r, arrays={**r.arrays, name: change(r.arrays[name])})


def with_scalar(name, value):
    return lambda r: replace(r, scalars={**r.scalars, name: value})


def spoilt(u):
    u = u.clone()
    u[0] = float("nan")
    return u


MALFORMED = {
    "nan": with_array("update", spoilt),
    "infinite": with_array("update", lambda u: u + float("inf")),
    "whole numbers": with_array("update", lambda u: (1000 * u).long()),
    "double": with_array("update", lambda u: u.double()),
    "short": with_array("update", lambda u: u[:-1]),
    "long": with_array("update", lambda u: torch.cat([u, u])),
    "matrix": with_array("update", lambda u: u[None]),
    "sparse": with_array("update", lambda u: Sparse(torch.arange(1), u[:1], len(u))),
    "no update": lambda r: replace(r, arrays={}),
    "another array": lambda r: replace(r, arrays={**r.arrays, "y": torch.zeros(3)}),
    "no loss": lambda r: replace(r, scalars={}),
    "text": with_scalar("loss", "much"),
    "none": with_scalar("loss", None),
    "true": with_scalar("loss", True),
    "loss of nan": with_scalar("loss", float("nan")),
}


def setup_of(method="fedavg", **changes):
    model = {"fold": "linear"}.get(method, "mlp")
    return from_config(tiny_config(method, TEN, **{"model": model, **changes}).resolve())


def train(setup):
    judge = judge_of(setup)
    return list(rounds(setup, setup.initial_state(), 0, judge)), judge


def test_every_action_has_a_row():
    assert set(REPLIES) == set(ACTIONS)


@pytest.mark.parametrize("method", METHODS)
def test_honest_replies_pass_untouched(method):
    setup = setup_of(method)
    done, judge = train(setup)
    plain = setup_of(method)
    state = plain.initial_state()
    for k in range(4):
        parts = (plain.algorithm, plain.federation, plain.rates, plain.server)
        _, state = compressed_round(*parts, state, k)
    assert torch.equal(done[-1].state.y, state.y)
    assert not judge.strikes
    assert not any("dropped" in d.record for d in done)


@pytest.mark.parametrize("lie", MALFORMED, ids=str)
def test_a_malformed_reply_is_dropped_and_named_and_ends_no_run(lie):
    setup = setup_of()
    setup = replace(setup, federation=Lying(setup.federation, MALFORMED[lie]))
    done, judge = train(setup)
    assert len(judge.strikes[0]) == STRIKES
    assert [list(d.record.get("dropped", {})) for d in done] == [["0"]] * 3 + [[]]
    assert "client 0 did not reply to 'train': its reply was dropped" in done[0].record["events"][0]
    assert "left out after 3" in done[3].record["events"][0]


@pytest.mark.parametrize("size", [0, -5, 10**15])
def test_a_claim_of_too_many_samples_is_not_believed(size):
    sizes = dict.fromkeys(range(1, 10), 20) | {0: size}
    judge = Judge()
    weights = judge.weights(sizes)
    assert weights[0] <= 20
    assert (0 in judge.claims) is (size > 400)


def test_no_client_weighs_more_than_max_share():
    sizes = {0: 10**9, 1: 10**9, 2: 30, 3: 20, 4: 10}
    weights = Judge(RobustKeys(max_share=0.4)).weights(sizes)
    assert max(weights.values()) <= 0.41 * sum(weights.values())
    assert weights[4] == 10


def test_a_model_that_diverges_at_all_clients_is_not_their_fault():
    setup = setup_of()
    spoil = MALFORMED["infinite"]

    class AllLying(Lying):
        def ask(self, request, clients):
            return [spoil(r) for r in self.inner.ask(request, clients)]

    judge = Judge()
    layer = JudgedFederation(AllLying(setup.federation, None), judge)
    scalars = {"steps": 1, "lr": 0.1, "batch_size": 8}
    replies = layer.ask(Request("train", 0, {"y": setup.model.initial()}, scalars), range(10))
    assert all(r.error is None for r in replies)
    assert not judge.strikes


@pytest.mark.parametrize("factor", [5.0, -5.0])
def test_a_long_update_is_clipped_and_its_client_named(factor):
    setup = setup_of(clip=3.0)
    lie = with_array("update", lambda u: factor * u)
    setup = replace(setup, federation=Lying(setup.federation, lie))
    done, judge = train(setup)
    assert all("times the median's length" in d.record["suspects"]["0"] for d in done)
    assert all(list(d.record["suspects"]) == ["0"] for d in done)
    assert not judge.strikes


@pytest.mark.parametrize("factor", [100.0, -20.0])
def test_an_absurdly_long_update_is_dropped(factor):
    lie = with_array("update", lambda u: factor * u)
    setup = setup_of()
    done, judge = train(replace(setup, federation=Lying(setup.federation, lie)))
    assert len(judge.strikes[0]) == STRIKES
    assert "times as long as the median's" in done[0].record["dropped"]["0"]


def test_an_update_that_was_sent_before_is_named():
    first = {}
    setup = setup_of()
    lie = with_array("update", lambda u: first.setdefault("u", u))
    setup = replace(setup, federation=Lying(setup.federation, lie))
    done, _ = train(setup)
    assert done[1].record["suspects"]["0"] == "its update is that of round 1"


def test_a_round_that_a_suspect_ruins_is_taken_back():
    setup = setup_of(clip=1e6, inner_lr=0.1)
    huge = with_array("update", lambda u: 1.2e6 * u)
    setup = replace(setup, federation=Lying(setup.federation, huge))
    judge, state = judge_of(setup), setup.initial_state()
    _, after, said = judged_round(setup, judge, state, 0)
    assert torch.equal(after.y, state.y)
    assert "round 1 was taken back; suspects: 0" in said[0]
    assert 0 in judge.strikes


def test_norms_of_updates_are_recorded():
    done, _ = train(setup_of())
    assert set(done[0].record["norms"]) == {str(m) for m in range(10)}
