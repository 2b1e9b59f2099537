"""``fedsift join --check``: every part is tried against a real listener with TLS."""

from __future__ import annotations

import socket
import ssl
import threading

import pytest

from fedsift.cli.main import main
from fedsift.files import hold
from fedsift.flower.deploy import LOCK
from fedsift.flower.keys import make_keys
from own_files import write_table

PARTS = ["folder", "data", "model", "encoder", "key", "certificate", "server"]


@pytest.fixture
def listener(tmp_path):
    """Listen with the server's certificate, and know nothing."""
    make_keys(tmp_path / "keys", ["site-0"])
    make_keys(tmp_path / "other", ["site-0"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "keys/server.crt", tmp_path / "keys/server.key")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)

        def serve() -> None:
            while True:
                try:
                    plain, _ = server.accept()
                    with context.wrap_socket(plain, server_side=True) as secured:
                        secured.recv(2**16)
                        secured.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                except ssl.SSLError:
                    continue
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def check(tmp_path, listener, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path, samples=8)

    def run(**changes: str) -> tuple[int, dict[str, tuple[str, str]]]:
        """Return the exit code and, by part, its state and its sentence."""
        given = {"server": f"127.0.0.1:{listener}", "ca": "keys/ca.crt"}
        given |= {"key": "keys/sites/site-0", "folder": "site", "client": "0", "name": "north"}
        given |= {"data": "north.csv", "label-column": "diagnosis", "id-column": "patient"}
        typed = [word for name, value in (given | changes).items() for word in (f"--{name}", value)]
        code = main(["join", "--check", *typed])
        rows = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
        return code, {name: (state, text) for name, state, text in rows}

    return run


def test_all_is_well(check, tmp_path):
    code, parts = check()
    assert code == 0
    assert list(parts) == PARTS
    assert {state for state, _ in parts.values()} == {"ok"}
    assert "8 samples" in parts["data"][1]
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize(
    ("part", "changes", "said"),
    [
        ("data", {"data": "none.csv"}, "there is no file or folder"),
        ("data", {"label-column": "label"}, "no column 'label'"),
        ("model", {"model": "nowhere:make"}, "nowhere:make cannot be imported"),
        ("encoder", {"encoder": "none.onnx"}, "none.onnx"),
        ("key", {"key": "north.csv"}, "is not a private key"),
        ("certificate", {"ca": "north.csv"}, "is not a certificate"),
        ("server", {"ca": "other/ca.crt"}, "cannot be verified"),
        ("server", {"server": "127.0.0.1:1"}, "does not answer"),
    ],
)
def test_what_is_wrong_is_said_and_the_rest_is_tried(check, part, changes, said):
    code, parts = check(**changes)
    assert code == 2
    assert list(parts) == PARTS
    state, text = parts[part]
    assert (state, said in text) == ("wrong", True), text
    assert parts["folder"][0] == "ok"


def test_a_folder_in_use_is_wrong(check, tmp_path):
    with hold(tmp_path / "site" / LOCK):
        assert check()[1]["folder"][0] == "wrong"
