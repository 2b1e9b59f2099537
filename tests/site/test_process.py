"""The site's process: its socket, a crash in the middle of a run, the relay that starts it."""

import importlib
import json
import subprocess
import sys
from multiprocessing.connection import Client

import numpy as np
import pytest
import torch

from fedsift.federation.encoding import decode_reply
from fedsift.site.journal import Journal
from fedsift.site.process import receive, send

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")


@pytest.fixture
def relay():
    pytest.importorskip("flwr", reason="the relay is a Flower app")
    return importlib.import_module("fedsift.flower.relay")


@pytest.fixture
def folder(case, relay):
    """A site's folder as `fedsift join` leaves it; whatever was started in it is ended."""
    folder = case.holdings.folder
    folder.mkdir()
    np.savez(folder / "data.npz", inputs=case.holdings.inputs, labels=case.holdings.labels)
    command = [sys.executable, "-m", "fedsift", "site", "--folder", str(folder), "--client", "0"]
    command += ["--data", str(folder / "data.npz")]
    (folder / "site.json").write_text(json.dumps({"command": command, "cwd": str(folder)}))
    yield folder
    _kill(relay)


def _kill(relay):
    """End the sites that the relay has started in this process."""
    while relay._started:
        process = relay._started.pop()
        process.kill()
        process.wait()


def test_a_killed_site_comes_back_with_its_weights(case, folder, relay):
    relay.ask_site(folder, case.hello())
    first = relay.ask_site(folder, case.step(0))
    _kill(relay)
    assert relay.ask_site(folder, case.step(0)) == first
    relay.ask_site(folder, case.step(1))
    state = case.rounds[1][2]
    stored = Journal(folder / "run" / "journal").last.state
    assert torch.equal(stored.x, state.x)
    assert torch.equal(stored.error, state.error)
    assert (folder / "site.sock").stat().st_mode & 0o077 == 0
    assert folder.stat().st_mode & 0o077 == 0
    _nonsense_does_not_end_it(case, folder, relay)


def _nonsense_does_not_end_it(case, folder, relay):
    for nonsense in (b"\x80\x04pickle", b'[["y", 99999999999999]]', b'{"a": 1}'):
        with Client(str(folder / "site.sock"), family="AF_UNIX") as connection:
            connection.send_bytes(nonsense)
            with pytest.raises(EOFError):
                connection.recv_bytes()
    assert decode_reply(relay.ask_site(folder, case.step(1))).error is None


def test_the_relay_s_protocol_is_the_site_s(relay, tmp_path, monkeypatch):
    class Pipe:
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

    pipe, parts = Pipe(), {".about": b"", "y": b"123"}
    monkeypatch.setattr(relay, "connect", lambda folder: pipe)
    assert relay.ask_site(tmp_path, parts) == parts
    send(pipe, parts)
    assert receive(pipe) == parts


def test_the_relay_needs_no_torch(relay):
    code = (
        "import runpy, sys; runpy.run_path(sys.argv[1]);"
        "print(*{m.split('.')[0] for m in sys.modules})"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, relay.__file__], capture_output=True, text=True, check=True
    )
    assert "flwr" in out.stdout.split()
    assert not {"torch", "fedsift"} & set(out.stdout.split())
