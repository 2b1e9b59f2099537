"""The remote federation: who is there, who replies what, who is silent."""

import re

import pytest
import torch

from fedsift.compress import TopK
from fedsift.errors import RunError, TooFewClients
from fedsift.federation.encoding import (
    REQUEST_ID,
    RequestId,
    decode_request,
    encode_reply,
    num_bytes,
)
from fedsift.federation.remote import HELLO, LONGEST_ERROR, RawReply, RemoteFederation, Timeouts
from fedsift.messages import Reply, Request, Snapshot
from fedsift.versioned import Versioned


class FakeTransport:
    """Nodes 100 + m; a function of (node, parts) replies for each, None is silence."""

    def __init__(self, answer, nodes=(100, 101, 102)):
        self.answer, self.present, self.sent, self.now = answer, list(nodes), {}, 0.0

    def nodes(self):
        return dict.fromkeys(self.present, "") if isinstance(self.present, list) else self.present

    def push(self, messages, ttl):
        ids = [f"message {len(self.sent) + i}" for i in range(len(messages))]
        self.sent |= dict(zip(ids, messages, strict=True))
        return ids

    def pull(self, ids):
        found = [(i, self.answer(self.sent[i][0], self.sent[i][1])) for i in ids]
        return [a if isinstance(a, RawReply) else RawReply(i, a) for i, a in found if a is not None]

    def sleep(self, seconds):
        self.now += seconds


def _answer(node, parts):
    reply = Reply(node - 100, 10 + node - 100, {}, {"loss": 0.5})
    if RequestId.decode(parts).action == HELLO:
        reply = Reply(node - 100, 10 + node - 100)
    return {**encode_reply(reply), REQUEST_ID: parts[REQUEST_ID]}


def _federation(answer=_answer, clients=3, **more):
    transport = FakeTransport(answer, **more)
    timeouts = Timeouts(reply=30, connect=10, poll=1)
    federation = RemoteFederation(transport, "r", timeouts, lambda: transport.now, transport.sleep)
    federation.open(clients, 0, {"seed": 1})
    return federation, transport


REQUEST = Request("train", 0, {"y": torch.ones(4)}, {"lr": 0.1})


def test_hello_maps_nodes_to_clients_in_order():
    federation, _ = _federation(nodes=(102, 100, 101))
    assert federation.sizes == {0: 10, 1: 11, 2: 12}
    assert list(federation.sizes) == [0, 1, 2]


def test_replies_come_in_order_and_bytes_are_counted():
    federation, _ = _federation()
    federation.restore(Snapshot())
    replies = federation.ask(REQUEST, [2, 0])
    assert [r.client for r in replies] == [0, 2]
    traffic = federation.traffic
    assert traffic.bytes_down == 2 * REQUEST.num_bytes()
    assert traffic.bytes_up == sum(r.num_bytes() for r in replies)
    assert traffic.exchanges == 1


def test_a_snapshot_has_no_client_state():
    federation, _ = _federation()
    federation.ask(REQUEST, [0])
    snapshot = federation.snapshot()
    assert snapshot == Snapshot({}, federation.versions, federation.traffic)
    assert federation.inspect(0) is None
    federation.ask(REQUEST, [0])
    federation.restore(snapshot)
    assert federation.traffic == snapshot.traffic


def test_too_few_clients_are_counted():
    with pytest.raises(TooFewClients, match="3 of 4 clients had connected after 10 s"):
        _federation(clients=4)


def test_who_is_missing_is_said_once():
    transport, said = FakeTransport(_answer, nodes=(100,)), []

    def sleep(seconds):  # a second site comes after 3 s, the third after 6
        transport.now += seconds
        transport.present = [100, 101, 102][: 1 + int(transport.now // 3)]

    timeouts = Timeouts(reply=30, connect=10, poll=1)
    federation = RemoteFederation(transport, "r", timeouts, lambda: transport.now, sleep)
    federation.open(3, 0, {"seed": 1}, said.append)
    assert said == ["waiting for 2 of 3 sites", "waiting for 1 of 3 sites"]


def test_two_sites_of_one_number_are_refused():
    def twins(node, parts):
        return {**encode_reply(Reply(0, 5)), REQUEST_ID: parts[REQUEST_ID]}

    with pytest.raises(RunError, match="two sites joined as client 0"):
        _federation(twins)


@pytest.mark.parametrize("claimed", [0, -5, 10**15])
def test_a_claim_that_no_site_can_make_is_not_registered(claimed):
    def liar(node, parts):
        reply = Reply(node - 100, claimed if node == 101 else 10)
        return {**encode_reply(reply), REQUEST_ID: parts[REQUEST_ID]}

    with pytest.raises(TooFewClients, match=f"2 of 3 .*client 1 claims {claimed} samples"):
        _federation(liar)


def test_a_sentence_of_five_megabytes_is_cut():
    def failing(node, parts):
        if RequestId.decode(parts).action == HELLO:
            return _answer(node, parts)
        error = encode_reply(Reply(node - 100, node - 90, error="x" * 5_000_000))
        return {**error, REQUEST_ID: parts[REQUEST_ID]}

    federation, _ = _federation(failing)
    assert [len(r.error) for r in federation.ask(REQUEST, [0, 1, 2])] == [LONGEST_ERROR] * 3


def _with(change):
    """Reply well but for client 1, whose reply to a request is changed."""

    def answer(node, parts):
        good = _answer(node, parts)
        return change(good) if node == 101 and RequestId.decode(parts).action != HELLO else good

    return answer


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda good: None, "no reply within 30 s"),
        (lambda good: {**good, "x": b"\x80\x04foreign"}, "truncated|not a fedsift payload"),
        (lambda good: {}, "does not identify its request"),
        (
            lambda good: {**good, REQUEST_ID: RequestId("r", 5, 0, "train").encode()},
            "to another request",
        ),
        (
            lambda good: {**encode_reply(Reply(2, 12)), REQUEST_ID: good[REQUEST_ID]},
            "replied as client 2",
        ),
        (
            lambda good: {**encode_reply(Reply(1, 99)), REQUEST_ID: good[REQUEST_ID]},
            "has 99 samples now",
        ),
        (lambda good: RawReply("message 4", None, "node gone"), "node gone"),
    ],
)
def test_a_bad_reply_becomes_an_error_reply(change, sentence):
    federation, _ = _federation(_with(change))
    replies = federation.ask(REQUEST, [0, 1, 2])
    assert [r.error is None for r in replies] == [True, False, True]
    assert re.search(sentence, replies[1].error)


def test_a_client_that_failed_gets_the_array_whole():
    topk = TopK(40, 2)
    versioned = Versioned(torch.ones(40), 2, topk.compress(torch.ones(40)))
    silent = []
    federation, transport = _federation(
        lambda node, parts: (
            None if node in silent and b"step" in parts[REQUEST_ID] else _answer(node, parts)
        )
    )

    def sent(k):
        transport.sent.clear()
        federation.ask(Request("step", k, {"v": versioned}), [0, 1])
        return [sorted(set(parts) & {"v", "v+"}) for _, parts in transport.sent.values()]

    federation.versions = {0: {"v": 1}, 1: {"v": 1}}
    silent.append(101)
    assert sent(0) == [["v+"], ["v+"]]
    federation.versions[0] = {"v": 1}
    assert sent(1) == [["v+"], ["v"]]


def test_requests_of_a_round_are_numbered():
    federation, transport = _federation()
    transport.sent.clear()
    for k in (0, 0, 1):
        federation.ask(Request("train", k), [0])
    seen = [RequestId.decode(parts) for _, parts in transport.sent.values()]
    assert [(a.round, a.number) for a in seen] == [(0, 0), (0, 1), (1, 0)]
    request, _ = decode_request(next(iter(transport.sent.values()))[1], {})
    assert request.action == "train"
    assert num_bytes(next(iter(transport.sent.values()))[1]) == Request("train", 0).num_bytes()
