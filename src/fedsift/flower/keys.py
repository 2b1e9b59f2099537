"""Keys for a federation: a development CA, the server's certificate, a key pair per site.

    ca.crt, ca.key            the CA that signs; ca.crt goes to every site
    server.crt, server.key    TLS of the server, for the host names given
    superexec.secret          shared by the server's own processes
    sites/<name>, <name>.pub  EC P-384 pair of a site's SuperNode, in OpenSSH's format

Private files have permissions 600. Existing files stay: a second call only adds what is missing.
For production put your own files there under the same names.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedsift.errors import InputError
from fedsift.files import write_atomically

LOOPBACK = ("localhost", "127.0.0.1", "::1")
DAYS = 365
WARN = 30  # days before a certificate's end


def make_keys(folder: Path, sites: Sequence[str], hosts: Sequence[str] = ()) -> list[Path]:
    """Write what is missing and return the files written."""
    written: list[Path] = []
    if not (folder / "server.crt").exists():
        written += _certificates(folder, (*LOOPBACK, *hosts))
    elif hosts:
        raise InputError(
            f"{folder} already has a server certificate; remove it to name other hosts"
        )
    if not (folder / "superexec.secret").exists():
        written.append(_private(folder / "superexec.secret", secrets.token_bytes(32)))
    for name in sites:
        if not (folder / "sites" / name).exists():
            written += _pair(folder / "sites" / name)
    return written


def make_site_key(path: Path) -> list[Path]:
    """Write a site's key pair; only the public half is for others."""
    if path.exists():
        raise InputError(f"{path} exists; choose another name, and have the old key revoked")
    return _pair(path)


def renew(folder: Path) -> list[Path]:
    """Write a new certificate of the server, for the same hosts and by the same CA."""
    try:
        ca_key = form.load_pem_private_key((folder / "ca.key").read_bytes(), password=None)
        ca, old = (read_certificate(folder / name) for name in ("ca.crt", "server.crt"))
        names = old.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound) as error:
        raise InputError(f"{folder} has no keys to renew ({error}); run `fedsift keys`") from None
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP384R1())
    hosts = [str(name.value) for name in names]
    certificate = _server_certificate(hosts, ca.subject, ca_key, key)
    new = {"server.key": _pem(key), "server.crt": certificate.public_bytes(form.Encoding.PEM)}
    for name, data in new.items():
        path = folder / name
        write_atomically(path, lambda target, data=data: _ignore(target.write_bytes(data)))  # type: ignore[misc]
    (folder / "server.key").chmod(0o600)
    return [folder / name for name in new]


def _ignore(_: object) -> None:
    return None


def read_certificate(path: Path) -> x509.Certificate:
    """Read a certificate; refuse what is none."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not a certificate ({error}); ask for ca.crt") from None


def expiry(path: Path, now: datetime.datetime | None = None) -> str | None:
    """Return a warning if a certificate expires within ``WARN`` days or has expired."""
    end = read_certificate(path).not_valid_after_utc
    left = end - (now or datetime.datetime.now(datetime.UTC))
    if left > datetime.timedelta(days=WARN):
        return None
    state = "has expired" if left < datetime.timedelta(0) else "will expire"
    return f"{path} {state} on {end:%Y-%m-%d}; `fedsift keys --renew` at the server makes a new one"


def load_or_make_key(path: Path, *, make: bool = False) -> ec.EllipticCurvePrivateKey:
    """Read a site's private key; where there is none it may be made."""
    if make and not path.exists():
        _pair(path)
    try:
        key = form.load_ssh_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"{path} is not a private key in OpenSSH's format ({error}); make one with "
            "`fedsift keys --site`"
        ) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InputError(f"{path} is not an EC key; make one with `fedsift keys --site`")
    return key


def _certificates(folder: Path, hosts: Sequence[str]) -> list[Path]:
    ca_key, key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    ca_name = _name("fedsift development CA")
    usage = x509.KeyUsage(
        **dict.fromkeys(
            (
                *("digital_signature", "content_commitment", "key_encipherment"),
                *("data_encipherment", "key_agreement", "encipher_only", "decipher_only"),
            ),
            False,
        ),
        key_cert_sign=True,
        crl_sign=True,
    )
    ca = (
        _draft(ca_name, ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), False)
        .sign(ca_key, hashes.SHA384())
    )
    certificate = _server_certificate(hosts, ca_name, ca_key, key)
    return [
        _private(folder / "ca.key", _pem(ca_key)),
        _public(folder / "ca.crt", ca.public_bytes(form.Encoding.PEM)),
        _private(folder / "server.key", _pem(key)),
        _public(folder / "server.crt", certificate.public_bytes(form.Encoding.PEM)),
    ]


def _server_certificate(
    hosts: Sequence[str],
    ca_name: x509.Name,
    ca_key: ec.EllipticCurvePrivateKey,
    key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    return (
        _draft(_name(hosts[0]), ca_name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), False
        )
        .sign(ca_key, hashes.SHA384())
    )


def _pair(path: Path) -> list[Path]:
    key = ec.generate_private_key(ec.SECP384R1())
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
    public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    return [_private(path, private), _public(path.with_name(f"{path.name}.pub"), public + b"\n")]


def _draft(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())


def _private(path: Path, data: bytes) -> Path:
    """Write a file that no other user can open at any time."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    return path


def _public(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
