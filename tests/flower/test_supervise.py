"""A program that ends is restarted, after a longer wait each time; all end together."""

import os
import sys

import pytest

from fedsift.flower import supervise
from fedsift.flower.supervise import Program, keep_running

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(supervise, "BACK_OFF", (0.01, 0.02))
    monkeypatch.setattr(supervise, "POLL", 0.01)


def _program(tmp_path, code):
    return Program([sys.executable, "-S", "-c", code], dict(os.environ), tmp_path / "log")


def test_it_starts_again_and_says_why(tmp_path, quick, capsys):
    program = _program(tmp_path, "import sys; sys.exit('no session yet')")
    reason = keep_running([program], give_up=lambda: "enough" if program.ends == 3 else None)
    assert reason == "enough"
    said = capsys.readouterr().err
    assert said.count("no session yet") >= 3
    assert "in 0.02 s" in said


def test_only_what_keeps_ending_is_failing(tmp_path, quick, monkeypatch):
    monkeypatch.setattr(supervise, "STEADY", 0.2)
    bad, good = _program(tmp_path, "1/0"), _program(tmp_path, "import time; time.sleep(1000)")
    reason = keep_running([bad, good], give_up=lambda: "enough" if bad.failing() > 1 else None)
    assert reason == "enough"
    assert good.failing() == 0


def test_what_runs_is_stopped_at_the_end(tmp_path, quick):
    program = _program(tmp_path, "import time; time.sleep(1000)")
    keep_running([program], give_up=lambda: "enough" if program.process else None)
    assert program.process.returncode is not None
