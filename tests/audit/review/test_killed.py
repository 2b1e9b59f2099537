"""The review's server killed while a person decides: what was answered is on disk.

``killed_server.py`` imports everything once and forks a server for each trial.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from audit.review.conftest import LIMIT, TOKEN
from fedsift.audit.review import Decisions
from fedsift.errors import InputError

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform == "win32", reason="there is no fork"),
]
SAMPLES = 200


def decide(port, answered):
    """Decide on one sample after the other until the server is gone; note every answer."""
    headers = {"Cookie": f"fedsift_review_{port}={TOKEN}"}
    for n in range(SAMPLES):
        body = {"action": "relabel", "label": n % 2, "comment": f"é {n}", "by": f"person {n % 3}"}
        data = json.dumps({**body, "samples": [[n, 0]], "tab": "t"}).encode()
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)) as connection:
            try:
                connection.request("POST", "/api/decide", data, headers)
                reply = connection.getresponse()
                saved = json.loads(reply.read())["saved"]
            except (OSError, http.client.HTTPException, ValueError):
                return
        assert (reply.status, saved) == (200, [n])
        answered.append(n)


def opened(path):
    """Open the decisions as soon as the system has ended the process that held them."""
    end = time.monotonic() + LIMIT
    while True:
        try:
            return Decisions(path, SAMPLES)
        except InputError:
            assert time.monotonic() < end
            time.sleep(0.01)


@pytest.mark.fault(
    "the review's server killed (-9) while a person decides",
    "no decision that was answered is lost",
)
@pytest.mark.parametrize("trials", [3, pytest.param(50, marks=pytest.mark.deep)])
def test_nothing_that_was_answered_is_lost(tmp_path, trials):
    script = Path(__file__).with_name("killed_server.py")
    env = {**os.environ, "PYTHONPATH": str(script.parents[2]), "PYTHONWARNINGS": "ignore"}
    draw = random.Random(0)
    with subprocess.Popen(
        [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    ) as parent:
        total = 0
        for trial in range(trials):
            folder = tmp_path / str(trial)
            folder.mkdir()
            parent.stdin.write(f"{folder}\n")
            parent.stdin.flush()
            process, port = map(int, parent.stdout.readline().split())
            answered: list[int] = []
            person = threading.Thread(target=decide, args=(port, answered))
            person.start()
            time.sleep(0.2 + draw.random())
            os.kill(process, signal.SIGKILL)
            person.join(LIMIT)
            total += len(answered)
            store = opened(folder / "decisions.jsonl")
            for n in answered:
                found = store.of(n)
                assert (found.action, found.label) != ("none", None)
                assert (found.label, found.comment) == (n % 2, f"é {n}")
                assert found.by == f"person {n % 3}"
            assert len(store.decided) - len(answered) in {0, 1}  # one may have had no reply yet
            store.close()
        parent.stdin.close()
    assert total > trials  # they were killed in the middle of work
