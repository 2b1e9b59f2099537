"""``fedsift join --check``: try all that a site needs before anyone starts a run.

folder        it can be written to, and no other process uses it
data          the samples can be read; what they would be read as
model         a function of one's own gives a module
encoder       it can be loaded; its fingerprint must be the same at every site
key           it is a private key of the kind that the server expects
certificate   it is a CA's, and still valid
server        it is reached, and its certificate is of that CA
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import getproxies, proxy_bypass

from cryptography import x509

from fedsift.data.encoders import load_encoder
from fedsift.data.samples import Samples
from fedsift.data.sources import describe
from fedsift.errors import FedsiftError, InputError
from fedsift.files import hold
from fedsift.flower.compat import reaches
from fedsift.flower.deploy import LOCK
from fedsift.flower.keys import load_or_make_key
from fedsift.flower.programs import Address
from fedsift.references import REFERENCE, find
from fedsift.site.calling import SOCKET
from fedsift.site.process import check_address
from fedsift.site.result import Origin


@dataclass(frozen=True)
class Checked:
    """One thing that was tried; ``problem`` is empty where it works."""

    name: str
    found: str = ""
    problem: str = ""


@dataclass(frozen=True)
class SiteCheck:
    """What a site would join with."""

    address: Address
    key: Path | None
    folder: Path
    origin: Origin

    def run(self) -> Iterator[Checked]:
        """Try everything, also after something does not work."""
        samples: list[Samples] = []
        steps: dict[str, Callable[[], str]] = {
            "folder": self._folder,
            "data": lambda: self._data(samples),
            "model": self._model,
            "encoder": lambda: self._encoder(samples),
            "key": self._key,
            "certificate": self._certificate,
            "server": self._server,
        }
        for name, step in steps.items():
            try:
                yield Checked(name, found=step())
            except FedsiftError as error:
                yield Checked(name, problem=str(error))

    def _folder(self) -> str:
        folder = self.folder.absolute()
        check_address(folder / SOCKET)
        made = not folder.exists()
        with hold(folder / LOCK):
            pass
        if made:
            folder.rmdir()
        return f"{folder} is free"

    def _data(self, kept: list[Samples]) -> str:
        own = self.origin.own_problem()
        if own is not None:
            return f"{self.origin.problem} has {len(own.batch)} samples"
        kept.append(self.origin.samples())
        return "; ".join(f"{title} {text}" for title, text in describe(kept[0]))

    def _model(self) -> str:
        if self.origin.problem:
            return "none: the problem has its own"
        if not REFERENCE.fullmatch(self.origin.model):
            return f"{self.origin.model}: made when the server opens a run"
        find(self.origin.model)
        return f"{self.origin.model} can be imported"

    def _encoder(self, kept: list[Samples]) -> str:
        if not self.origin.encoder:
            return "none"
        if not kept:
            raise InputError("not tried, because the data cannot be read")
        encoder = load_encoder(self.origin.encoder, kept[0].content.kind)
        return f"{self.origin.encoder}, fingerprint {encoder.fingerprint}"

    def _key(self) -> str:
        if self.key is None:
            return "none: this federation is not secured"
        load_or_make_key(self.key)
        return f"{self.key} is a private key"

    def _certificate(self) -> str:
        path = self.address.ca
        if path is None:
            return "none: this federation is not secured"
        try:
            ca = x509.load_pem_x509_certificate(path.read_bytes())
        except (OSError, ValueError) as error:
            raise InputError(f"{path} is not a certificate ({error}); ask for ca.crt") from None
        if ca.not_valid_after_utc < datetime.datetime.now(datetime.UTC):
            raise InputError(f"{path} has expired on {ca.not_valid_after_utc:%Y-%m-%d}; renew it")
        return f"{path} is valid until {ca.not_valid_after_utc:%Y-%m-%d}"

    def _server(self) -> str:
        where = str(self.address)
        if not reaches(where, self.address.ca):
            raise InputError(f"{where} does not answer; is the server running?{through(where)}")
        return f"{where} answers{through(where)}"


def through(address: str) -> str:
    """Return a note on the proxy by which a server is reached; nothing where there is none."""
    proxy = getproxies().get("https")
    return f" (through the proxy {proxy})" if proxy and not proxy_bypass(address) else ""
