"""Messages that are out: sent again to who rejoined, and the first reply counts."""

import pytest

from fedsift.federation.outbox import Outbox, RawReply


class Engine:
    """Gives ids m0, m1 ...; replies are put in by the test."""

    def __init__(self):
        self.sent, self.back = [], []

    def push(self, messages, ttl):
        self.sent += messages
        first = len(self.sent) - len(messages)
        return [
            None if parts.get("too") else f"m{first + i}" for i, (_, parts) in enumerate(messages)
        ]

    def pull(self, ids):
        found, self.back = [r for r in self.back if r.reply_to in ids], []
        return found


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def outbox(engine):
    made = Outbox(engine)
    made.push({1: {"y": b"1"}, 2: {"y": b"2"}}, {1: "a", 2: "a"}, 10.0)
    return made


def test_only_who_rejoined_gets_it_again(engine, outbox):
    outbox.repeat({1: "a", 2: "b"}, 10.0)
    outbox.repeat({1: "a", 2: "b"}, 10.0)
    outbox.repeat({1: "a"}, 10.0)  # 2 is away: nothing can be sent
    assert engine.sent == [(1, {"y": b"1"}), (2, {"y": b"2"}), (2, {"y": b"2"})]


@pytest.mark.parametrize("copy", ["m1", "m2"])
def test_the_first_reply_to_any_copy_counts(engine, outbox, copy):
    outbox.repeat({1: "a", 2: "b"}, 10.0)
    engine.back = [RawReply(copy, {"r": b""})]
    assert outbox.pull() == {2: RawReply(copy, {"r": b""})}
    assert outbox.waiting == [1]
    engine.back = [RawReply("m1", {"r": b""}), RawReply("m2", {"r": b""})]
    assert outbox.pull() == {}


def test_an_error_of_a_copy_that_was_replaced_is_ignored(engine, outbox):
    outbox.repeat({1: "a", 2: "b"}, 10.0)
    engine.back = [RawReply("m1", None, "node gone")]
    assert outbox.pull() == {}
    engine.back = [RawReply("m2", None, "node gone")]
    assert outbox.pull() == {2: RawReply("m2", None, "node gone")}


def test_what_the_engine_refuses_does_not_wait(engine, outbox):
    outbox.push({3: {"too": b"large"}}, {}, 10.0)
    assert outbox.waiting == [1, 2]
