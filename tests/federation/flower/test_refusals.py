"""Who is not let in: a key nobody registered, the wrong CA, plain text; and what is not started."""

import subprocess

import pytest

from fedsift.cli.main import main
from fedsift.errors import InputError
from fedsift.federation.flower import programs
from fedsift.federation.flower.deploy import listens
from fedsift.federation.flower.keys import make_keys
from fedsift.federation.flower.programs import Address
from fedsift.federation.flower.rehearsal import Rehearsal


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refuse")
    with Rehearsal(folder, []) as federation:
        make_keys(folder / "others", ["stranger"])
        yield federation


def _try(server, address, key):
    """Return the output of a node that tries to connect once; None if it was let in."""
    secret = server.keys / "superexec.secret"
    command = [*programs.supernode(address, key, server.port + 1, secret), "--max-retries", "0"]
    env = programs.environment(server.folder / "flwr")
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=90, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    assert done.returncode != 0
    return done.stdout + done.stderr


def test_strangers_are_refused(server):
    others = server.folder / "others"
    ours, theirs = (Address("127.0.0.1", server.port, k / "ca.crt") for k in (server.keys, others))
    plain = Address("127.0.0.1", server.port, None)
    stranger = others / "nodes" / "stranger"
    for address, key, said in (
        (ours, stranger, "Failed to initialize the connection"),
        (ours, None, "Failed to initialize the connection"),
        (theirs, stranger, "ertificate"),
        (plain, stranger, "Failed to initialize the connection"),
    ):
        told = _try(server, address, key)
        assert told is not None
        assert said in told
    with pytest.raises(InputError, match="does not fit"):
        listens(theirs)
    assert listens(ours)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("server --folder F", "needs --keys for TLS"),
        ("server --folder F --insecure --host 0.0.0.0", "loopback only"),
        ("join --server a.org:1 --insecure --folder F --client 0 --data d.npz", "loopback only"),
        ("join --server a.org:1 --folder F --client 0 --data d.npz", "TLS needs the CA"),
        ("join --server a.org:1 --ca CA --folder F --client 0 --data d.npz", "needs --key"),
        ("submit C --server nowhere --ca CA", "is no address"),
        ("submit C --server 10.0.0.1:80 --insecure", "loopback only"),
    ],
)
def test_nothing_starts_without_tls(tmp_path, monkeypatch, capsys, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "CA").write_text("")
    (tmp_path / "C").write_text("")
    assert main(arguments.split()) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "F").exists()
