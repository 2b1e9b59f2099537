"""Keys: a handshake works with the CA made and with no other; private files are private."""

import datetime
import socket
import ssl
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from fedsift.cli.main import main
from fedsift.errors import InputError
from fedsift.flower.deploy import Reminder
from fedsift.flower.keys import (
    expiry,
    load_or_make_key,
    make_keys,
    read_certificate,
    renew,
)


def _handshake(keys, ca, host):
    """Return None if a client that trusts ``ca`` accepts the server's certificate for a host."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(keys / "server.crt", keys / "server.key")
    client = ssl.create_default_context(cafile=ca / "ca.crt")
    ours, theirs = socket.socketpair()

    def serve():
        try:
            server.wrap_socket(theirs, server_side=True).close()
        except (ssl.SSLError, OSError):
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        client.wrap_socket(ours, server_hostname=host).close()
    except ssl.SSLCertVerificationError as error:
        ours.close()
        return error.verify_message
    finally:
        thread.join()
    return None


def test_only_the_right_ca_and_the_right_name_are_trusted(tmp_path):
    make_keys(tmp_path / "a", [], ["fed.example.org", "10.1.2.3"])
    make_keys(tmp_path / "b", [])
    a, b = tmp_path / "a", tmp_path / "b"
    for host in ("localhost", "127.0.0.1", "::1", "fed.example.org", "10.1.2.3"):
        assert _handshake(a, a, host) is None
    assert _handshake(a, b, "localhost") is not None
    assert _handshake(a, a, "other.example.org") is not None


def test_private_files_are_private_and_pairs_fit(tmp_path):
    make_keys(tmp_path, ["site-0"])
    for name in ("ca.key", "server.key", "superexec.secret", "sites/site-0"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    private = load_ssh_private_key((tmp_path / "sites/site-0").read_bytes(), None)
    public = load_ssh_public_key((tmp_path / "sites/site-0.pub").read_bytes())
    assert private.public_key() == public
    assert private.curve.name == "secp384r1"


def test_a_second_call_adds_and_changes_nothing(tmp_path):
    first = make_keys(tmp_path, ["site-0"])
    before = {path: path.read_bytes() for path in first}
    added = make_keys(tmp_path, ["site-0", "site-1"])
    assert sorted(p.name for p in added) == ["site-1", "site-1.pub"]
    assert {path: path.read_bytes() for path in first} == before
    with pytest.raises(InputError, match="already has a server certificate"):
        make_keys(tmp_path, [], ["new.example.org"])


def test_a_negative_number_of_sites_writes_nothing(tmp_path, capsys):
    assert main(["keys", "--out", str(tmp_path / "keys"), "--sites", "-1"]) == 2
    assert "--sites is -1" in capsys.readouterr().err
    assert not (tmp_path / "keys").exists()


def test_a_site_makes_its_own_key_and_only_the_public_half_travels(tmp_path, capsys):
    assert main(["keys", "--site", str(tmp_path / "north")]) == 0
    assert "north.pub: send it" in capsys.readouterr().out
    assert (tmp_path / "north").stat().st_mode & 0o077 == 0
    load_or_make_key(tmp_path / "north")
    assert b"PRIVATE" not in (tmp_path / "north.pub").read_bytes()
    assert main(["keys", "--site", str(tmp_path / "north")]) == 2
    assert "exists" in capsys.readouterr().err


def test_a_renewed_certificate_is_of_the_same_ca_for_the_same_hosts(tmp_path):
    make_keys(tmp_path, [], ["fed.example.org"])
    ca, old = (read_certificate(tmp_path / name) for name in ("ca.crt", "server.crt"))
    renew(tmp_path)
    new = read_certificate(tmp_path / "server.crt")
    new.verify_directly_issued_by(ca)
    names = [
        c.extensions.get_extension_for_class(x509.SubjectAlternativeName).value for c in (old, new)
    ]
    assert names[0] == names[1]
    assert new.serial_number != old.serial_number
    assert (tmp_path / "server.key").stat().st_mode & 0o077 == 0


def test_who_stays_is_reminded_every_day(tmp_path, capsys, monkeypatch):
    make_keys(tmp_path, [])
    now = [0.0]
    remind = Reminder([tmp_path / "ca.crt", tmp_path / "server.crt"], clock=lambda: now[0])
    monkeypatch.setattr("fedsift.flower.deploy.expiry", lambda path: f"{path.name} will expire")
    for seconds in (0, 1, 86_399, 86_400, 86_401, 2 * 86_400):
        now[0] = seconds
        remind()
    said = [line.split("warning: ")[1] for line in capsys.readouterr().err.splitlines()]
    assert said == ["ca.crt will expire", "server.crt will expire"] * 3


@pytest.mark.parametrize(("days", "said"), [(100, None), (29, "will expire"), (-1, "has expired")])
def test_an_end_within_30_days_is_said(tmp_path, days, said):
    make_keys(tmp_path, [])
    end = read_certificate(tmp_path / "ca.crt").not_valid_after_utc
    found = expiry(tmp_path / "ca.crt", end - datetime.timedelta(days=days))
    assert (found is None) if said is None else (said in found)
