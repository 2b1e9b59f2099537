"""Addresses: what is read, and what is refused without TLS."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedsift.errors import InputError
from fedsift.flower import programs
from fedsift.flower.programs import CONNECTION, Address, is_loopback


@pytest.fixture
def ca(tmp_path):
    path = tmp_path / "ca.crt"
    path.write_text("a certificate")
    return path


@pytest.mark.parametrize(
    ("text", "host", "shown"),
    [
        ("example.org:9092", "example.org", "example.org:9092"),
        ("10.0.0.1:9092", "10.0.0.1", "10.0.0.1:9092"),
        ("[::1]:9092", "::1", "[::1]:9092"),
    ],
)
def test_an_address_with_tls(ca, text, host, shown):
    found = Address.parse(text, ca, insecure=False)
    assert (found.host, found.port, found.ca, str(found)) == (host, 9092, ca, shown)
    assert found.trust == ["--root-certificates", str(ca)]


def test_on_loopback_tls_may_be_left_out(ca):
    for given in (None, ca):
        found = Address.parse("127.0.0.1:80", given, insecure=True)
        assert found == Address("127.0.0.1", 80, None)
        assert found.trust == ["--insecure"]


@pytest.mark.parametrize("text", ["example.org", ":9092", "example.org:", "example.org:http"])
def test_what_is_not_an_address(ca, text):
    with pytest.raises(InputError, match="host:port"):
        Address.parse(text, ca, insecure=False)


@pytest.mark.parametrize("host", ["example.org", "10.0.0.1", "0.0.0.0"])
def test_elsewhere_tls_may_not_be_left_out(ca, host):
    with pytest.raises(InputError, match="loopback only"):
        Address.parse(f"{host}:9092", ca, insecure=True)


def test_tls_needs_a_certificate_that_exists(tmp_path):
    with pytest.raises(InputError, match="give --ca"):
        Address.parse("127.0.0.1:9092", None, insecure=False)
    for insecure in (False, True):
        with pytest.raises(InputError, match="fedsift keys"):
            Address.parse("127.0.0.1:9092", tmp_path / "absent", insecure=insecure)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *(("localhost", True), ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True)),
        *(("0.0.0.0", False), ("localhost.example", False), ("192.168.0.1", False)),
    ],
)
def test_loopback_names(host, expected):
    assert is_loopback(host) is expected


def test_a_folder_with_the_programs_name_is_not_taken_for_the_connection(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fedsift").mkdir()
    words = programs.run(tmp_path / "app", tmp_path / "run.toml")
    assert CONNECTION in words
    assert not Path(CONNECTION).exists()
