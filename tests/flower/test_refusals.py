"""Who is not let in: a key nobody registered, the wrong CA, plain text; and what is not started."""

import signal
import subprocess
import threading

import pytest

from fedsift.cli.main import main
from fedsift.errors import InputError
from fedsift.flower import programs
from fedsift.flower.deploy import free_port, listens
from fedsift.flower.keys import make_keys
from fedsift.flower.programs import Address
from fedsift.flower.rehearsal import Rehearsal


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server that knows the key of site-0, and the keys of another CA and another site."""
    folder = tmp_path_factory.mktemp("refuse")
    make_keys(folder / "keys", ["site-0"])
    make_keys(folder / "others", ["stranger"])
    with Rehearsal(folder, []) as federation:
        yield federation


def _let_in(server, address, key):
    """Say if a node gets an identity from the server; it tries once and ends when it is refused."""
    node = programs.supernode(address, key, free_port(), server.keys / "superexec.secret")
    process = subprocess.Popen(
        [*node, "--max-retries", "0"],
        env=programs.environment(server.folder / "flwr"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    watchdog = threading.Timer(240, process.kill)
    watchdog.start()
    with process:
        accepted = any("SuperNode ID" in line for line in process.stdout)
        if accepted:
            process.kill()
    watchdog.cancel()
    assert accepted or process.returncode not in {0, -signal.SIGKILL}
    return accepted


def test_only_a_registered_key_over_tls_is_let_in(server):
    others = server.folder / "others"
    ours, theirs = (Address("127.0.0.1", server.port, k / "ca.crt") for k in (server.keys, others))
    plain = Address("127.0.0.1", server.port, None)
    known, stranger = server.keys / "nodes" / "site-0", others / "nodes" / "stranger"
    assert _let_in(server, ours, known)
    for address, key in ((ours, stranger), (ours, None), (theirs, known), (plain, None)):
        assert not _let_in(server, address, key)
    assert listens(ours)
    with pytest.raises(InputError, match="does not fit"):
        listens(theirs)


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
