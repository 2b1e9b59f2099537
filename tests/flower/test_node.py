"""The node's loop over a made-up link: what it answers, drops, puts aside, and when it rejoins."""

import json

import pytest

from fedsift.errors import InputError, RunError
from fedsift.flower import node as module
from fedsift.flower.compat import Away, Refused, RunOver
from fedsift.flower.node import ASIDE, LONGEST, SHORTEST, Node, pace


class Stop(Exception):  # noqa: N818
    """Ends the loop of a test."""


class Announced:
    """A message that is whole after some looks."""

    def __init__(self, name, looks=1, expired=False):
        self.name, self.looks, self.expired, self.tries = name, looks, expired, 0

    def message(self):
        return self


class Link:
    """Messages and errors in the order in which they come; notes what was replied."""

    def __init__(self, *coming, joins=()):
        self.coming, self.joins = list(coming), list(joins)
        self.joined, self.replies, self.left = [], [], 0

    def join(self, before):
        self.joined.append(before)
        if self.joins:
            raise self.joins.pop(0)
        return 7

    def receive(self):
        found = self.coming.pop(0) if self.coming else Stop()
        if isinstance(found, Exception):
            raise found
        return found

    def pull(self, incoming):
        incoming.looks -= 1
        if incoming.looks < -5:
            raise RunOver
        return incoming.looks == 0

    def reply(self, incoming, parts, seconds):
        self.replies.append((incoming.name, parts))

    def leave(self):
        self.left += 1


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "parts_of", lambda message: {"name": message.name.encode()})

    def begin(link, ask=lambda parts: parts, give_up=300.0):
        """Run until the link has nothing more; return the pauses."""
        now, pauses = [0.0], []

        def sleep(seconds):
            pauses.append(seconds)
            now[0] += seconds

        made = Node(link, ask, tmp_path, "a.org:1", give_up, lambda: now[0], sleep)
        with pytest.raises(Stop):
            made.run()
        assert link.left == 1
        return pauses

    return begin


def test_it_asks_often_while_messages_come_and_seldom_when_idle():
    assert pace(took=0.01, idle=1.0) == SHORTEST
    assert pace(took=0.01, idle=60.0) == 1.0
    assert pace(took=0.01, idle=1e6) == LONGEST


def test_a_slow_server_is_asked_less_often():
    assert pace(took=0.2, idle=0.0) == 0.8
    assert pace(took=10.0, idle=0.0) == LONGEST


def test_messages_are_answered_in_order(run):
    link = Link(Announced("a"), None, Announced("b"))
    run(link)
    assert link.replies == [("a", {"name": b"a"}), ("b", {"name": b"b"})]


def test_one_that_is_not_whole_holds_up_no_other(run):
    link = Link(Announced("slow", looks=3), Announced("quick"), None, None)
    pauses = run(link)
    assert [name for name, _ in link.replies] == ["quick", "slow"]
    assert min(p for p in pauses if p) == ASIDE[0]


@pytest.mark.parametrize("gone", [Announced("x", expired=True), Announced("x", looks=-5)])
def test_a_message_of_a_run_that_ended_is_dropped(run, capsys, gone):
    link = Link(gone, Announced("next"))
    run(link)
    assert [name for name, _ in link.replies] == ["next"]
    assert "its run has ended" in capsys.readouterr().err


def test_if_the_server_is_away_it_rejoins_in_place_of_its_own_session(run, tmp_path, capsys):
    link = Link(Announced("unfinished", looks=9), Away("gone"), Announced("again"))
    run(link)
    assert link.joined == [None, 7]
    assert [name for name, _ in link.replies] == ["again"]
    assert json.loads((tmp_path / "node.json").read_text()) == {"node": 7, "server": "a.org:1"}
    assert "the server is away (gone)" in capsys.readouterr().err


@pytest.mark.parametrize("kept", ["", "[]", '{"node": 5}', '{"node": 5, "server": "b.org:1"}'])
def test_another_server_s_session_is_not_replaced(run, tmp_path, kept):
    (tmp_path / "node.json").write_text(kept)
    link = Link()
    run(link)
    assert link.joined == [None]


def test_a_site_that_failed_is_an_error_reply(run):
    def fail(parts):
        raise RunError("the site did not start")

    link = Link(Announced("a"))
    run(link, fail)
    assert link.replies == [("a", "the site did not start")]


def test_it_says_once_why_it_cannot_join_and_then_gives_up(run, tmp_path, capsys):
    link = Link(joins=[Away("refused")] * 100)
    made = Node(link, None, tmp_path, "a.org:1", 0.0, sleep=lambda _: None)
    with pytest.raises(RunError, match=r"a.org:1 does not answer"):
        made.run()
    assert capsys.readouterr().err.count("does not answer") == 1
    assert link.left == 1


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (Refused("no", 412), RunError, "not registered there, was revoked, or is in use"),
        (Refused("no", 401), InputError, "refused the key's signature"),
        (InputError("certificate verify failed"), InputError, "not of the CA"),
    ],
)
def test_who_is_refused_is_told_why(tmp_path, error, kind, sentence):
    made = Node(Link(joins=[error] * 9), None, tmp_path, "a.org:1", 0.0, sleep=lambda _: None)
    with pytest.raises(kind, match=sentence):
        made.run()
