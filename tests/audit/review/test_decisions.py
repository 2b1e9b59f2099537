"""Decisions: saved at once, versioned, undone, and whole after a crash."""

from __future__ import annotations

import os
import random
import signal
import sys
import time

import pytest

from fedsift.audit.review import Asked, Decisions
from fedsift.errors import InputError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "decisions.jsonl"


@pytest.fixture
def decisions(path):
    store = Decisions(path, 10)
    yield store
    store.close()


def states(store):
    return {d.index: (d.action, d.label) for d in store.decided}


def save(store, index, version, action, label=None, by="ana", tab="a", **more):
    (saved,), _ = store.save([Asked(index, version, action, label, **more)], by, tab)
    return saved


def test_what_is_answered_is_read_back(decisions, path):
    save(decisions, 3, 0, "relabel", 2)
    save(decisions, 3, 1, "keep", 0, comment="checked twice: é")
    save(decisions, 5, 0, "unusable", by="ben")
    decisions.close()
    again = Decisions(path, 10)
    assert states(again) == {3: ("keep", 0), 5: ("unusable", None)}
    assert (again.of(3).version, again.of(3).comment) == (2, "checked twice: é")
    assert [again.of(n).by for n in (3, 5)] == ["ana", "ben"]
    assert abs(again.of(5).time - time.time()) < 60
    again.close()


def test_who_has_not_seen_the_latest_is_refused(decisions):
    first = save(decisions, 3, 0, "keep", 0)
    saved, stale = decisions.save([Asked(3, 0, "accept", 1), Asked(4, 0, "accept", 1)], "ben", "b")
    assert stale == [first]
    assert [d.index for d in saved] == [4]
    assert states(decisions) == {3: ("keep", 0), 4: ("accept", 1)}


def test_everyone_hears_what_others_did(decisions):
    save(decisions, 3, 0, "keep", 0)
    seen = decisions.sequence
    save(decisions, 4, 0, "keep", 0, by="ben", tab="b")
    save(decisions, 4, 1, "unusable", by="ben", tab="b")
    assert [(d.index, d.action) for d in decisions.changes(seen)] == [(4, "unusable")]
    assert len(decisions.changes()) == 2


def test_a_comment_leaves_the_decision_as_it_is(decisions):
    save(decisions, 3, 0, "relabel", 2)
    save(decisions, 3, 1, "comment", comment="blurred")
    assert (decisions.of(3).action, decisions.of(3).label) == ("relabel", 2)
    save(decisions, 3, 2, "keep", 0)
    assert decisions.of(3).comment == "blurred"
    save(decisions, 7, 0, "comment", comment="only this")
    assert 7 not in states(decisions)


def test_a_skipped_sample_has_no_decision(decisions):
    save(decisions, 3, 0, "skip")
    assert not states(decisions)
    assert decisions.of(3).action == "skip"


def test_undo_goes_back_step_by_step(decisions, path):
    save(decisions, 3, 0, "keep", 0, comment="one")
    save(decisions, 3, 1, "relabel", 2)
    save(decisions, 4, 0, "unusable")
    assert [(d.index, d.action) for d in decisions.undo("ana", "a")] == [(4, "none")]
    (back,) = decisions.undo("ana", "a")
    assert (back.index, back.version, back.action, back.comment) == (3, 3, "keep", "one")
    decisions.close()
    again = Decisions(path, 10)  # undo goes on after a restart
    assert states(again) == {3: ("keep", 0)}
    assert again.undo("ben", "another") == []  # another person's decisions are theirs
    (back,) = again.undo("ana", "another")
    assert (back.version, back.action, back.comment) == (4, "none", "")
    assert again.undo("ana", "a") == []
    again.close()


def test_decisions_made_together_are_undone_together(decisions):
    save(decisions, 1, 0, "keep", 0)
    decisions.save([Asked(n, decisions.of(n).version, "accept", 2) for n in range(4)], "ana", "a")
    save(decisions, 2, 1, "unusable", by="ben", tab="b")  # one of them was changed since
    assert [d.index for d in decisions.undo("ana", "a")] == [0, 1, 3]
    assert states(decisions) == {1: ("keep", 0), 2: ("unusable", None)}


def test_undo_prefers_the_own_tab(decisions):
    save(decisions, 1, 0, "keep", 0, tab="a")
    save(decisions, 2, 0, "keep", 0, tab="b")
    (undone,) = decisions.undo("ana", "a")
    assert undone.index == 1


def test_a_line_cut_off_by_a_crash_is_dropped(decisions, path):
    save(decisions, 1, 0, "keep", 0)
    decisions.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"sequence": 2, "index": 2, "vers')
    again = Decisions(path, 10)
    save(again, 2, 0, "keep", 0)
    again.close()
    assert path.read_bytes().startswith(whole)
    last = Decisions(path, 10)
    assert states(last) == {1: ("keep", 0), 2: ("keep", 0)}
    last.close()


def _killed(path, seed):
    """Decide in another process until it is killed; return what it was told is saved."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            store = Decisions(path, 1000)
            for n in range(200):
                index = 5 * n % 1000
                batch = [Asked(index + k, store.of(index + k).version, "relabel", k, f"é {n} {k}")
                         for k in range(5)]  # fmt: skip
                store.save(batch, f"person {n % 3}", "tab")
                os.write(writing, f"{n}\n".encode())
            time.sleep(10)
        finally:
            os._exit(1)
    os.close(writing)
    draw = random.Random(seed)
    told, stop = b"", draw.randrange(1, 60)
    while told.count(b"\n") < stop:
        told += os.read(reading, 4096)
    time.sleep(draw.random() / 1000)
    os.kill(child, signal.SIGKILL)
    while more := os.read(reading, 4096):
        told += more
    os.close(reading)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    return [int(line) for line in told.split()]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("seed", range(5))
def test_a_killed_process_loses_nothing(path, seed):
    told = _killed(path, seed)
    store = Decisions(path, 1000)
    assert told
    for n in told:
        for k in range(5):
            found = store.of(5 * n + k)
            assert (found.action, found.label) == ("relabel", k)
            assert (found.comment, found.by) == (f"é {n} {k}", f"person {n % 3}")
    assert store.undo("person 0", "tab")
    store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="files are not locked on Windows")
def test_one_review_at_a_time(decisions, path):
    with pytest.raises(InputError, match="open in another review"):
        Decisions(path, 10)


@pytest.mark.parametrize(("index", "action"), [(10, "keep"), (-1, "keep"), (0, "explode")])
def test_unknown_actions_and_samples_are_refused(decisions, index, action):
    with pytest.raises(InputError, match="there is no"):
        decisions.save([Asked(index, 0, action)])
    assert not decisions.decided


def test_a_sample_twice_and_a_comment_without_end_are_refused(decisions):
    with pytest.raises(InputError, match="decided twice at once"):
        decisions.save([Asked(1, 0, "keep"), Asked(1, 0, "skip")])
    with pytest.raises(InputError, match="at most 2000 characters"):
        decisions.save([Asked(1, 0, "keep", 0, "x" * 2001)])
    assert not decisions.sequence


def test_a_file_of_another_site_is_refused(decisions, path):
    save(decisions, 9, 0, "keep", 0)
    decisions.close()
    with pytest.raises(InputError, match="line 1, is not a decision on this site"):
        Decisions(path, 5)
