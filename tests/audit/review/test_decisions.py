"""Decisions: saved at once, versioned, undone, and whole after a crash."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fedsift.audit.review import Decision, Decisions
from fedsift.audit.review.decisions import Conflict
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


def test_what_is_answered_is_read_back(decisions, path):
    decisions.decide(3, 0, "relabel", 2, "a")
    decisions.decide(3, 1, "keep", 0, "a")
    decisions.decide(5, 0, "unusable", None, "a")
    decisions.close()
    again = Decisions(path, 10)
    assert states(again) == {3: ("keep", 0), 5: ("unusable", None)}
    assert again.of(3).version == 2
    again.close()


def test_a_tab_that_has_not_seen_the_latest_is_refused(decisions):
    first = decisions.decide(3, 0, "keep", 0, "a")
    with pytest.raises(Conflict) as refused:
        decisions.decide(3, 0, "accept", 1, "b")
    assert refused.value.current == first
    assert states(decisions) == {3: ("keep", 0)}


def test_undo_goes_back_step_by_step(decisions, path):
    decisions.decide(3, 0, "keep", 0, "a")
    decisions.decide(3, 1, "relabel", 2, "a")
    decisions.decide(4, 0, "unusable", None, "a")
    assert decisions.undo("a") == Decision(4, 2)
    assert decisions.undo("a") == Decision(3, 3, "keep", 0)
    decisions.close()
    again = Decisions(path, 10)  # undo goes on after a restart
    assert states(again) == {3: ("keep", 0)}
    assert again.undo("another") == Decision(3, 4)
    assert again.undo("a") is None
    again.close()


def test_undo_prefers_the_own_tab(decisions):
    decisions.decide(1, 0, "keep", 0, "a")
    decisions.decide(2, 0, "keep", 0, "b")
    undone = decisions.undo("a")
    assert undone is not None
    assert undone.index == 1


def test_a_line_cut_off_by_a_crash_is_dropped(decisions, path):
    decisions.decide(1, 0, "keep", 0, "a")
    decisions.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"sequence": 2, "index": 2, "vers')
    again = Decisions(path, 10)
    again.decide(2, 0, "keep", 0, "a")
    again.close()
    assert path.read_bytes().startswith(whole)
    last = Decisions(path, 10)
    assert states(last) == {1: ("keep", 0), 2: ("keep", 0)}
    last.close()


def test_a_killed_process_loses_nothing(path):
    script = (
        "import os, sys; from pathlib import Path; from fedsift.audit.review import Decisions\n"
        "store = Decisions(Path(sys.argv[1]), 10)\n"
        "for n in range(10): store.decide(n, 0, 'keep', 1, 'a')\n"
        "os.kill(os.getpid(), 9)"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert ended.returncode == -9
    store = Decisions(path, 10)
    assert len(store.decided) == 10
    store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="files are not locked on Windows")
def test_one_review_at_a_time(decisions, path):
    with pytest.raises(InputError, match="open in another review"):
        Decisions(path, 10)


@pytest.mark.parametrize(("index", "action"), [(10, "keep"), (-1, "keep"), (0, "explode")])
def test_unknown_actions_and_samples_are_refused(decisions, index, action):
    with pytest.raises(InputError, match="there is no"):
        decisions.decide(index, 0, action, None, "a")
    assert not decisions.decided


def test_a_file_of_another_client_is_refused(decisions, path):
    decisions.decide(9, 0, "keep", 0, "a")
    decisions.close()
    with pytest.raises(InputError, match="line 1, is not a decision on this site"):
        Decisions(path, 5)
