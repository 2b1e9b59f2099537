"""The site's process: its socket, a crash in the middle of a run, the caller that starts it."""

import json
import subprocess
import sys
from itertools import chain, repeat
from multiprocessing import Pipe
from multiprocessing.connection import Client

import numpy as np
import pytest
import torch

from fedsift.client.policy import FILE, OPEN
from fedsift.errors import RunError
from fedsift.federation.encoding import decode_reply
from fedsift.site import process as site_process
from fedsift.site.calling import SiteCaller
from fedsift.site.journal import Journal
from fedsift.site.lifetime import claim, stop
from fedsift.site.process import receive, send

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets"),
    pytest.mark.timeout(180),
]


@pytest.fixture
def folder(case):
    """A site's folder as `fedsift join` leaves it; its process is terminated after the test."""
    folder = case.site_data.folder
    folder.mkdir()
    samples = case.site_data.samples
    np.savez(folder / "data.npz", inputs=samples.content.inputs, labels=list(samples.labels))
    (folder / FILE).write_text(OPEN.to_toml())
    command = [sys.executable, "-m", "fedsift", "site", "--folder", str(folder), "--client", "0"]
    command += ["--data", str(folder / "data.npz")]
    (folder / "site.json").write_text(json.dumps({"command": command, "cwd": str(folder)}))
    return folder


@pytest.fixture
def caller(folder):
    caller = SiteCaller(folder)
    yield caller
    _kill(caller)


def _kill(caller):
    """Kill, by process id, the site that the caller has started."""
    if caller._process is not None:
        caller._process.kill()
        caller._process.wait()


def test_stop_terminates_the_site_that_has_the_folder(folder, caller):
    caller.connect().close()
    process = caller._process
    stop(folder, grace=60.0)
    assert process.wait(timeout=60) == 0  # asked to end, not killed


def test_a_site_that_cannot_start_says_why(folder, caller):
    how = json.loads((folder / "site.json").read_text())
    how["command"][-1] = str(folder / "absent.npz")
    (folder / "site.json").write_text(json.dumps(how))
    with pytest.raises(RunError, match=r"the site did not start: .*absent.npz.*site.log"):
        caller.connect()


def test_a_killed_site_comes_back_with_its_weights(case, folder, caller):
    caller.ask(case.hello())
    first = caller.ask(case.step(0))
    _kill(caller)
    assert caller.ask(case.step(0)) == first
    caller.ask(case.step(1))
    state = case.rounds[1][2]
    stored = Journal(folder / "run" / "journal").last.state
    assert torch.equal(stored.x, state.x)
    assert torch.equal(stored.error, state.error)
    assert (folder / "site.sock").stat().st_mode & 0o077 == 0
    assert folder.stat().st_mode & 0o077 == 0
    _foreign_bytes_do_not_end_it(case, folder, caller)


def test_a_site_that_is_still_dying_is_not_one_that_does_not_start(folder, caller):
    class Dying:
        codes = chain([None, None], repeat(-9))  # the system says so only at the third look

        def poll(self):
            return next(self.codes)

    caller._process = Dying()
    caller.connect().close()
    assert caller._process.poll() is None


def test_stopping_a_site_that_does_not_end_gives_up(tmp_path):
    with claim(tmp_path, mark=False), pytest.raises(RunError, match="still in use"):
        stop(tmp_path, grace=0.1)


def _foreign_bytes_do_not_end_it(case, folder, caller):
    for foreign in (b"\x80\x04pickle", b'[["y", 99999999999999]]', b'{"a": 1}'):
        with Client(str(folder / "site.sock"), family="AF_UNIX") as connection:
            connection.send_bytes(foreign)
            with pytest.raises(EOFError):
                connection.recv_bytes()
    assert decode_reply(caller.ask(case.step(1))).error is None


def test_the_caller_s_protocol_is_the_site_s(tmp_path, monkeypatch):
    class Wire:
        def __init__(self):
            self.frames = []

        def send_bytes(self, data):
            self.frames.append(data)

        def recv_bytes(self, limit=None):
            return self.frames.pop(0)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    pipe, parts = Wire(), {".about": b"", "y": b"123"}
    caller = SiteCaller(tmp_path)
    monkeypatch.setattr(caller, "connect", lambda: pipe)
    assert caller.ask(parts) == parts
    send(pipe, parts)
    assert receive(pipe) == parts


@pytest.mark.fault(
    "a caller of a site's socket that sends nothing, half a request, or does not read",
    "dropped after 10 s; the next gets its turn",
)
@pytest.mark.parametrize("sent", [b"", b'[["y", 5]]'], ids=["nothing", "no part"])
def test_a_caller_that_is_silent_is_dropped(monkeypatch, sent):
    monkeypatch.setattr(site_process, "REQUEST_TIMEOUT", 0.2)
    near, far = Pipe()
    if sent:
        far.send_bytes(sent)
    site_process._answer(near, lambda parts: parts)  # returns: the next caller gets its turn


@pytest.mark.fault(
    "a caller of a site's socket that sends nothing, half a request, or does not read",
    "dropped after 10 s; the next gets its turn",
)
def test_a_caller_that_does_not_read_is_dropped(monkeypatch):
    monkeypatch.setattr(site_process, "REQUEST_TIMEOUT", 0.2)
    near, far = Pipe()
    send(far, {"y": b"1"})
    site_process._answer(near, lambda parts: {"y": bytes(2**24)})


def test_a_node_loads_no_torch():
    pytest.importorskip("flwr", reason="pip install 'fedsift[flower]'")
    code = "import sys, fedsift.cli.join, fedsift.flower.node; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"flwr", "fedsift"} <= set(out.stdout.split())
    assert "torch" not in out.stdout.split()
