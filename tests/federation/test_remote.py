"""The federation by mail: who is there, who answers what, who stays silent."""

import re

import pytest
import torch

from fedsift.compress import TopK
from fedsift.errors import RunError, TooFewClients
from fedsift.federation.encoding import ABOUT, About, decode_request, encode_reply, num_bytes
from fedsift.federation.remote import HELLO, Letter, Patience, RemoteFederation
from fedsift.messages import Reply, Request, Snapshot, Versioned


class FakeMail:
    """Nodes 100 + m, each answered by a function of (about, parts); None stays silent."""

    def __init__(self, answer, nodes=(100, 101, 102)):
        self.answer, self.present, self.sent, self.now = answer, list(nodes), {}, 0.0

    def nodes(self):
        return self.present

    def push(self, letters, ttl):
        ids = [f"letter {len(self.sent) + i}" for i in range(len(letters))]
        self.sent |= dict(zip(ids, letters, strict=True))
        return ids

    def pull(self, ids):
        letters = [(i, self.answer(self.sent[i][0], self.sent[i][1])) for i in ids]
        return [a if isinstance(a, Letter) else Letter(i, a) for i, a in letters if a is not None]

    def sleep(self, seconds):
        self.now += seconds


def _answer(node, parts):
    reply = Reply(node - 100, 10 + node - 100, {}, {"loss": 0.5})
    if About.decode(parts).action == HELLO:
        reply = Reply(node - 100, 10 + node - 100)
    return {**encode_reply(reply), ABOUT: parts[ABOUT]}


def _federation(answer=_answer, clients=3, **mail):
    mail = FakeMail(answer, **mail)
    patience = Patience(answer=30, connect=10, poll=1)
    federation = RemoteFederation(mail, "r", patience, lambda: mail.now, mail.sleep)
    federation.open(clients, 0, {"seed": 1})
    return federation, mail


REQUEST = Request("train", 0, {"y": torch.ones(4)}, {"lr": 0.1})


def test_the_opening_question_maps_nodes_to_clients_in_order():
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


def test_too_few_clients_are_told_by_number():
    with pytest.raises(TooFewClients, match="3 of 4 clients were there after 10 s"):
        _federation(clients=4)


def test_two_sites_of_one_number_are_refused():
    def twins(node, parts):
        return {**encode_reply(Reply(0, 5)), ABOUT: parts[ABOUT]}

    with pytest.raises(RunError, match="two sites say that they are client 0"):
        _federation(twins)


def _with(change):
    """Answer well but for client 1, whose answer to a request is changed."""

    def answer(node, parts):
        good = _answer(node, parts)
        return change(good) if node == 101 and About.decode(parts).action != HELLO else good

    return answer


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda good: None, "no answer within 30 s"),
        (lambda good: {**good, "x": b"\x80\x04foreign"}, "truncated|not a fedsift payload"),
        (lambda good: {}, "does not say which question"),
        (
            lambda good: {**good, ABOUT: About("r", 5, 0, "train").encode()},
            "to another question",
        ),
        (
            lambda good: {**encode_reply(Reply(2, 12)), ABOUT: good[ABOUT]},
            "answered as client 2",
        ),
        (
            lambda good: {**encode_reply(Reply(1, 99)), ABOUT: good[ABOUT]},
            "has 99 samples now",
        ),
        (lambda good: Letter("letter 4", None, "node gone"), "node gone"),
    ],
)
def test_a_bad_answer_becomes_an_error_reply(change, sentence):
    federation, _ = _federation(_with(change))
    replies = federation.ask(REQUEST, [0, 1, 2])
    assert [r.error is None for r in replies] == [True, False, True]
    assert re.search(sentence, replies[1].error)


def test_a_client_that_failed_gets_the_array_whole():
    topk = TopK(40, 2)
    versioned = Versioned(torch.ones(40), 2, topk.compress(torch.ones(40)))
    silent = []
    federation, mail = _federation(
        lambda node, parts: (
            None if node in silent and b"step" in parts[ABOUT] else _answer(node, parts)
        )
    )

    def sent(k):
        mail.sent.clear()
        federation.ask(Request("step", k, {"v": versioned}), [0, 1])
        return [sorted(set(parts) & {"v", "v+"}) for _, parts in mail.sent.values()]

    federation.versions = {0: {"v": 1}, 1: {"v": 1}}
    silent.append(101)
    assert sent(0) == [["v+"], ["v+"]]
    federation.versions[0] = {"v": 1}
    assert sent(1) == [["v+"], ["v"]]


def test_questions_of_a_round_are_numbered():
    federation, mail = _federation()
    mail.sent.clear()
    for k in (0, 0, 1):
        federation.ask(Request("train", k), [0])
    seen = [About.decode(parts) for _, parts in mail.sent.values()]
    assert [(a.round, a.number) for a in seen] == [(0, 0), (0, 1), (1, 0)]
    request, _ = decode_request(next(iter(mail.sent.values()))[1], {})
    assert request.action == "train"
    assert num_bytes(next(iter(mail.sent.values()))[1]) == Request("train", 0).num_bytes()
