"""A run killed (-9) at a random moment and resumed: the same bits as one that was left alone.

The moment is anywhere between the start and the end of an undisturbed run, so also within a write,
before the first round and among the results. Runs are forked: only what is tried takes time.
"""

import os
import random
import signal
import sys
import time

import pytest

from fedsift.experiment.run import execute
from fedsift.experiment.run_folder import RunFolder

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="there is no fork"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]


def kill_after(seconds, config, out):
    """Run in a child that is killed; return False if it had ended before."""
    child = os.fork()
    if not child:
        try:
            execute(config, out)
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.fault(
    "a run in one process killed (-9) at a random moment", "the resumed run has the same bits"
)
@pytest.mark.parametrize("trials", [3, pytest.param(100, marks=pytest.mark.deep)])
def test_a_resumed_run_is_the_run(tmp_path, tiny, outcome, record_property, trials):
    draw, kills = random.Random(0), 0
    config = tiny("single-loop", rounds=30, checkpoint_every=4)
    execute(config, tmp_path / "warm")
    start = time.monotonic()
    execute(config, tmp_path / "whole")
    whole, seconds = outcome(tmp_path / "whole"), time.monotonic() - start
    for trial in range(trials):
        out = tmp_path / str(trial)
        kills += kill_after(draw.random() * seconds, config, out)
        execute(config, out, resume=RunFolder(out).config.exists())
        assert outcome(out) == whole
        assert not list(out.rglob("*.part"))
    record_property("killed_before_the_end", kills)
    assert kills
