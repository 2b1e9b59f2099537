"""Who is refused: an unregistered key, the wrong CA, plain text; and what is not started."""

import subprocess
import time

import pytest

from fedsift.cli.main import main
from fedsift.errors import InputError
from fedsift.flower import programs
from fedsift.flower.deploy import free_port, listens
from fedsift.flower.keys import make_keys
from fedsift.flower.local_deployment import LocalDeployment
from fedsift.flower.programs import Address

pytestmark = pytest.mark.timeout(280)  # a server and five SuperNodes
LIMIT = 45.0  # seconds for a SuperNode to be accepted or to end; it takes about five


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server that knows the key of site-0, and the keys of another CA and another site."""
    folder = tmp_path_factory.mktemp("refuse")
    make_keys(folder / "keys", ["site-0"])
    make_keys(folder / "others", ["stranger"])
    with LocalDeployment(folder, []) as federation:
        yield federation


def _accepted(server, address, key):
    """Return if a SuperNode gets an id from the server; it tries once and ends when refused."""
    command = programs.supernode(address, key, free_port(), server.keys / "superexec.secret")
    log, end = server.folder / "supernode.log", time.monotonic() + LIMIT
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, "--max-retries", "0"],
            env=programs.environment(server.folder / "flwr"),
            stdout=file,
            stderr=file,
        )
    try:
        while process.poll() is None and time.monotonic() < end:
            if "SuperNode ID" in log.read_text():
                return True
            time.sleep(0.1)
        assert process.returncode, f"neither accepted nor refused: {log.read_text()[-1000:]}"
        return False
    finally:
        process.kill()
        process.wait()


def test_only_a_registered_key_over_tls_is_accepted(server):
    others = server.folder / "others"
    ours, theirs = (Address("127.0.0.1", server.port, k / "ca.crt") for k in (server.keys, others))
    plain = Address("127.0.0.1", server.port, None)
    known, stranger = server.keys / "sites" / "site-0", others / "sites" / "stranger"
    assert _accepted(server, ours, known)
    for address, key in ((ours, stranger), (ours, None), (theirs, known), (plain, None)):
        assert not _accepted(server, address, key)
    assert listens(ours)
    with pytest.raises(InputError, match="cannot be verified with"):
        listens(theirs)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("server --folder F", "--keys is missing"),
        ("server --folder F --insecure --host 0.0.0.0", "loopback only"),
        ("join --server a.org:1 --insecure --folder F --client 0 --data d.npz", "loopback only"),
        ("join --server a.org:1 --folder F --client 0 --data d.npz", "TLS needs the CA"),
        ("join --server a.org:1 --ca CA --folder F --client 0 --data d.npz", "--key is missing"),
        ("submit C --server nowhere --ca CA", "is not an address"),
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
