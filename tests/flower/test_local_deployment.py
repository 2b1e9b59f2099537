"""A trial federation ends with the process that started it, however that ends."""

import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = [
    pytest.mark.deep,
    pytest.mark.timeout(400),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals a parent's death"),
]
START = """
import sys, time
from pathlib import Path
from fedsift.flower.local_deployment import LocalDeployment
with LocalDeployment(Path(sys.argv[1]), []) as federation:
    print(federation.processes["server"].pid, flush=True)
    time.sleep(1000)
"""


def _runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_killed_starter_leaves_no_server(tmp_path):
    command = [sys.executable, "-c", START, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        try:
            server = int(starter.stdout.readline())
        finally:
            starter.kill()
    end = time.monotonic() + 90
    try:
        while _runs(server) and time.monotonic() < end:
            time.sleep(0.2)
        assert not _runs(server)
    finally:
        if _runs(server):
            os.kill(server, signal.SIGKILL)
