"""The site's process: its socket, a crash in the middle of a run, the client app that starts it."""

import importlib
import json
import subprocess
import sys
from multiprocessing.connection import Client

import numpy as np
import pytest
import torch

from fedsift.client.policy import FILE, OPEN
from fedsift.errors import RunError
from fedsift.federation.encoding import decode_reply
from fedsift.site.journal import Journal
from fedsift.site.process import claim, receive, send, stop

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets"),
    pytest.mark.timeout(180),
]


@pytest.fixture
def client_app():
    pytest.importorskip("flwr", reason="the client app is a Flower app")
    return importlib.import_module("fedsift.flower.client_app")


@pytest.fixture
def folder(case, client_app):
    """A site's folder as `fedsift join` leaves it; its process is terminated after the test."""
    folder = case.site_data.folder
    folder.mkdir()
    samples = case.site_data.samples
    np.savez(folder / "data.npz", inputs=samples.content.inputs, labels=list(samples.labels))
    (folder / FILE).write_text(OPEN.to_toml())
    command = [sys.executable, "-m", "fedsift", "site", "--folder", str(folder), "--client", "0"]
    command += ["--data", str(folder / "data.npz")]
    (folder / "site.json").write_text(json.dumps({"command": command, "cwd": str(folder)}))
    yield folder
    _kill(client_app)


def _kill(client_app):
    """Kill, by process id, the sites that the client app has started in this process."""
    while client_app._started:
        process = client_app._started.pop()
        process.kill()
        process.wait()


def test_stop_terminates_the_site_that_has_the_folder(folder, client_app):
    client_app.connect(folder).close()
    process = client_app._started[-1]
    stop(folder, grace=60.0)
    assert process.wait(timeout=5) == 0  # asked to end, not killed


def test_a_killed_site_comes_back_with_its_weights(case, folder, client_app):
    client_app.ask_site(folder, case.hello())
    first = client_app.ask_site(folder, case.step(0))
    _kill(client_app)
    assert client_app.ask_site(folder, case.step(0)) == first
    client_app.ask_site(folder, case.step(1))
    state = case.rounds[1][2]
    stored = Journal(folder / "run" / "journal").last.state
    assert torch.equal(stored.x, state.x)
    assert torch.equal(stored.error, state.error)
    assert (folder / "site.sock").stat().st_mode & 0o077 == 0
    assert folder.stat().st_mode & 0o077 == 0
    _foreign_bytes_do_not_end_it(case, folder, client_app)


def test_stopping_a_site_that_does_not_end_gives_up(tmp_path):
    with claim(tmp_path, mark=False), pytest.raises(RunError, match="still in use"):
        stop(tmp_path, grace=0.1)


def _foreign_bytes_do_not_end_it(case, folder, client_app):
    for foreign in (b"\x80\x04pickle", b'[["y", 99999999999999]]', b'{"a": 1}'):
        with Client(str(folder / "site.sock"), family="AF_UNIX") as connection:
            connection.send_bytes(foreign)
            with pytest.raises(EOFError):
                connection.recv_bytes()
    assert decode_reply(client_app.ask_site(folder, case.step(1))).error is None


def test_the_client_app_s_protocol_is_the_site_s(client_app, tmp_path, monkeypatch):
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
    monkeypatch.setattr(client_app, "connect", lambda folder: pipe)
    assert client_app.ask_site(tmp_path, parts) == parts
    send(pipe, parts)
    assert receive(pipe) == parts


@pytest.mark.parametrize(
    ("start", "without"),
    [
        ("import runpy; runpy.run_path({path!r})", {"torch", "fedsift"}),
        ("import fedsift.flower.relay", {"torch"}),
    ],
    ids=["client app, which travels", "relay"],
)
def test_flower_s_side_of_a_site_loads_no_torch(client_app, start, without):
    code = f"import sys; {start.format(path=client_app.__file__)}; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in out.stdout.split()}
    assert "flwr" in loaded
    assert not without & loaded
