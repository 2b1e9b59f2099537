"""Secure sums: the same means as without masks, with absent clients, for every method that may."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedsift.algorithms.registry import METHODS
from fedsift.client import Client, initial_state
from fedsift.client.actions import ACTIONS
from fedsift.client.secure_sum import summed
from fedsift.client.state import Outcome
from fedsift.compress import CountSketch, TopK
from fedsift.errors import ConfigError, InputError, TooFewClients
from fedsift.experiment.run import execute, train
from fedsift.experiment.setup import from_config, from_data, load_data
from fedsift.federation import LocalFederation, SecureSumFederation
from fedsift.messages import Cohort, Reply, Request
from fedsift.problem.networks import build_model
from tiny import tiny_config

D = 1000


class Batch:
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size


class Problem:
    x_is_private = False


@pytest.fixture
def numbers(monkeypatch):
    """An action that replies with numbers of its own: a vector, a sketch and a scalar."""
    sketch = CountSketch.at_rate(D, 10, seed=1)

    def action(client, state, request, shared):
        source = torch.Generator().manual_seed(100 * request.round + client.id)
        vector = torch.randn(D, generator=source) * 10.0**request.round
        return Outcome(
            {"update": vector, "product": sketch.compress(vector)}, {"loss": client.id}, state
        )

    monkeypatch.setitem(ACTIONS, "numbers", action)
    return sketch


class Absent:
    """A federation of which some clients do not answer some actions."""

    def __init__(self, inner, absent=lambda action, client: False):
        self.inner, self.absent, self.seen = inner, absent, []

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def ask(self, request, clients):
        replies = self.inner.ask(request, clients)
        self.seen += [(request, reply) for reply in replies]
        return [
            Reply(r.client, r.num_samples, error="silent")
            if self.absent(request.action, r.client)
            else r
            for r in replies
        ]


SIZES = (30, 10, 20, 40, 25, 15, 12, 8, 33, 7)


def federation(absent=lambda action, client: False, sizes=SIZES):
    clients = [Client(m, Problem(), Batch(n)) for m, n in enumerate(sizes)]
    return Absent(LocalFederation(clients, pool=False), absent)


def means(answers):
    sketch = answers.payloads("product")[0]
    tables = [s * p.table for s, p in zip(answers.shares, answers.payloads("product"), strict=True)]
    return answers.mean("update"), sum(tables), answers.mean_scalar("loss"), sketch


@pytest.mark.parametrize("gone", [(), (3,), (0, 5, 9)])
@pytest.mark.parametrize("when", ["numbers", "sum-reveal"])
def test_the_mean_is_that_of_the_plain_replies(numbers, gone, when):
    absent = lambda action, client: action == when and client in gone  # noqa: E731
    plain, masked = federation(absent), federation(absent)
    secure = SecureSumFederation(masked)
    for k in range(3):
        request = Request("numbers", k)
        expected = means(Cohort(plain, tuple(range(10))).ask(request))
        answers = Cohort(secure, tuple(range(10))).ask(request)
        found = means(answers)
        for mine, theirs in zip(found[:2], expected[:2], strict=True):
            assert (mine - theirs).abs().max() <= 2**-16 * theirs.abs().max()
        assert found[2] == pytest.approx(expected[2], abs=1e-4)
        assert (found[3].seed, found[3].length) == (expected[3].seed, expected[3].length)
        named = gone if when == "numbers" else ()
        assert len(answers.events) == len(named)


def test_more_absent_than_a_third_end_the_round(numbers):
    absent = lambda action, client: action == "numbers" and client < 4  # noqa: E731
    secure = SecureSumFederation(federation(absent))
    with pytest.raises(TooFewClients, match=r"silent|too few"):
        Cohort(secure, tuple(range(10))).ask(Request("numbers", 0))


def test_too_few_shares_end_the_round(numbers):
    absent = lambda action, client: action == "sum-reveal" and client < 4  # noqa: E731
    with pytest.raises(TooFewClients, match="too few revealed"):
        Cohort(SecureSumFederation(federation(absent)), tuple(range(10))).ask(Request("numbers", 0))


def test_who_has_no_keys_is_left_out_of_the_sum(numbers):
    absent = lambda action, client: action == "sum-shares" and client == 2  # noqa: E731
    answers = Cohort(SecureSumFederation(federation(absent)), tuple(range(10))).ask(
        Request("numbers", 0)
    )
    assert {r.client for r in answers.replies} == set(range(10)) - {2}


def test_two_clients_have_no_secure_sum(numbers):
    secure = SecureSumFederation(federation(sizes=(5, 6)))
    with pytest.raises(TooFewClients, match="three clients"):
        Cohort(secure, (0, 1)).ask(Request("numbers", 0))


def test_what_travels_looks_random(numbers):
    """No masked reply correlates with the numbers in it; without masks the check would see it."""
    inner = federation()
    Cohort(SecureSumFederation(inner), tuple(range(10))).ask(Request("numbers", 0))
    replies = [r for _, r in inner.seen if "masked" in r.arrays]
    assert len(replies) == 10
    for reply in replies:
        assert set(reply.arrays) == {"masked", "exponents"}
        assert set(reply.scalars) == {"layout"}
        sent = np.frombuffer(reply.arrays["masked"].numpy().tobytes(), "<i4").astype(float)
        source = torch.Generator().manual_seed(reply.client)
        own = torch.randn(D, generator=source).numpy()
        pieces = sent[-1 - D : -1]  # product, update, loss in this order
        assert abs(np.corrcoef(pieces, own)[0, 1]) < 5 / D**0.5
        assert abs(np.corrcoef(own + pieces * 0, own)[0, 1]) > 0.99


def test_keys_are_asked_for_once_in_sixteen_sums(numbers):
    inner = federation()
    secure = SecureSumFederation(inner)
    for k in range(17):
        Cohort(secure, tuple(range(10))).ask(Request("numbers", k % 3))
    asked = [request.action for request, reply in inner.seen if reply.client == 0]
    assert asked.count("sum-keys") == 2
    assert asked.count("sum-reveal") == 17
    assert asked.count("numbers") == 18  # once more: the first time, for the sizes


def test_a_client_reveals_once_and_never_for_too_few(numbers):
    inner = federation()
    Cohort(SecureSumFederation(inner), tuple(range(10))).ask(Request("numbers", 0))
    reveal = next(request for request, _ in inner.seen if request.action == "sum-reveal")
    again = inner.inner.ask(reveal, [4])[0]
    assert "revealed before" in again.error

    absent = lambda action, client: action == "sum-reveal"  # noqa: E731
    inner = federation(absent)
    with pytest.raises(TooFewClients):
        Cohort(SecureSumFederation(inner), tuple(range(10))).ask(Request("numbers", 0))
    asked = next(request for request, _ in inner.seen if request.action == "sum-reveal")
    for client, state in inner.inner.states.items():
        inner.inner.states[client] = replace(state, sums=torch.tensor([0, -1]))
    few = torch.tensor([1] * 6 + [0] * 4, dtype=torch.uint8)
    reply = inner.inner.ask(replace(asked, arrays={**asked.arrays, "present": few}), [4])[0]
    assert "6 of 10 members" in reply.error


def test_top_k_is_refused_at_the_client():
    client = Client(0, Problem(), Batch(5))
    payload = TopK(D, 10).compress(torch.randn(D))
    request = Request(
        "numbers", 0, {"members": torch.arange(3)}, {"sum_number": 0, "sum_total": 15}
    )
    state = initial_state(client)
    with pytest.raises(InputError, match="count-sketch"):
        summed(client, state, Outcome({"product": payload}, {}, state), request)


MEANS = sorted(name for name, row in METHODS.items() if row.means_only)
COUNT_SKETCH = {"single-loop": {"compressor": "count-sketch"}}


@pytest.mark.parametrize("method", MEANS)
def test_every_method_that_takes_means_runs_on_it(method):
    """Sites of unlike sizes; the model is that of the plain run up to fixed point."""
    config = tiny_config(
        method, {"clients": 4, "rounds": 2, "seed": 1}, **COUNT_SKETCH.get(method, {})
    )
    plain, secure = (
        train(_unlike(config.replace(secure_sum=on).resolve())) for on in (False, True)
    )
    gap = (plain.state.y - secure.state.y).abs().max() / plain.state.y.abs().max()
    assert gap < 1e-3
    assert type(secure.setup.federation) is SecureSumFederation


def _unlike(config):
    """Return the run with sites of 20, 17, 14 and 11 samples, every client by itself."""
    data = load_data(config)
    clients = [
        c.choose(torch.arange(len(c.labels)) < 20 - 3 * m) for m, c in enumerate(data.clients)
    ]
    module = build_model(config.model, data.shape, data.classes, config.seed)
    setup = from_data(config, replace(data, clients=clients), module)
    local = setup.federation.inner if config.secure_sum else setup.federation
    local.pool = False
    return setup


@pytest.mark.parametrize(
    ("method", "keys", "match"),
    [
        ("focus", {}, "single replies"),
        ("fedavg", {"update_rate": 5.0}, "Top-k"),
        ("single-loop", {}, "Top-k"),
        ("iter-topk", {}, "single replies"),
    ],
)
def test_what_cannot_be_summed_is_refused(method, keys, match):
    config = tiny_config(method, {"clients": 4, "rounds": 2}, secure_sum=True, **keys)
    with pytest.raises(ConfigError, match=match):
        from_config(config.resolve())


def test_a_resumed_run_is_the_same(tmp_path):
    config = tiny_config(
        "fedavg", {"clients": 4, "rounds": 4, "checkpoint_every": 1}, secure_sum=True
    )
    whole = execute(config, tmp_path / "whole").state.y
    part = tmp_path / "part"
    execute(config.replace(rounds=2), part)
    resumed = execute(config, part, resume=True).state.y
    assert torch.equal(whole, resumed)


def test_the_extra_bytes_are_few(numbers):
    """Masked numbers have 32 bits, as plain ones; keys and shares come on top."""
    inner, plain = federation(), federation()
    secure = SecureSumFederation(inner)
    for k, fed in itertools.product(range(3), (secure, plain)):
        Cohort(fed, tuple(range(10))).ask(Request("numbers", k))
    masked = [r.arrays["masked"].numel() for _, r in inner.seen if "masked" in r.arrays]
    bare = [r for _, r in plain.seen]
    numbers_sent = sum(
        p.numel() for p in (bare[0].arrays["update"], bare[0].arrays["product"].table)
    )
    assert set(masked) == {4 * (numbers_sent + 1)}


def test_a_reply_of_other_parts_is_asked_for_again(numbers, monkeypatch):
    """An action that replies with more in a later round has no bounds for that yet."""
    plain = ACTIONS["numbers"]

    def more(client, state, request, shared):
        outcome = plain(client, state, request, shared)
        extra = {"extra": torch.full((3,), 1e6 + client.id)} if request.round else {}
        return outcome._replace(arrays={**outcome.arrays, **extra})

    monkeypatch.setitem(ACTIONS, "numbers", more)
    secure = SecureSumFederation(federation())
    for k in range(2):
        answers = Cohort(secure, tuple(range(10))).ask(Request("numbers", k))
    expected = 1e6 + sum(m * n for m, n in enumerate(SIZES)) / sum(SIZES)
    assert answers.mean("extra").tolist() == pytest.approx([expected] * 3, abs=8)


@pytest.mark.parametrize("action", ["sum-keys", "sum-shares", "sum-reveal", "numbers"])
def test_a_malformed_part_of_a_sum_is_its_clients_fault_and_ends_nothing(numbers, action):
    class Malformed(Absent):
        def ask(self, request, clients):
            replies = super().ask(request, clients)
            if request.action != action or replies[0].client:
                return replies
            wrong = {name: torch.zeros(3, dtype=torch.int64) for name in replies[0].arrays}
            return [replace(replies[0], arrays=wrong), *replies[1:]]

    clients = [Client(m, Problem(), Batch(10)) for m in range(6)]
    federation = SecureSumFederation(Malformed(LocalFederation(clients)))
    replies = federation.ask(Request("numbers", 0), range(6))
    assert sum(r.error is None for r in replies) >= 5
