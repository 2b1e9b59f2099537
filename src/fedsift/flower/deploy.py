"""What the commands keep running: a server; a site with its node.

    server   flower-superlink + flower-superexec, then every site's public key is registered
    join     fedsift site + the node (``node``) in the command's own process

The SuperLink runs apps in separate processes (`--isolation process`) that must know a secret, so
that a run outlives a crash of the SuperLink and no other user can take its tasks.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedsift.errors import InputError, RunError
from fedsift.files import hold, sweep, write_text
from fedsift.flower import programs
from fedsift.flower.keys import expiry, load_or_make_key
from fedsift.flower.programs import Address
from fedsift.flower.supervise import Program, keep_running
from fedsift.logs import say
from fedsift.site.calling import COMMAND, SiteCaller
from fedsift.site.lifetime import stop as stop_site

START = 240.0  # seconds for a server to listen
LOCK = "in-use.lock"
DAY = 86_400.0  # seconds


def check_installed() -> None:
    """Refuse to go on without Flower, or with a version that fedsift was not tested with."""
    if find_spec("flwr") is None:
        raise InputError("this command needs Flower; run pip install 'fedsift[flower]'")
    import_module("fedsift.flower.compat")


@dataclass(frozen=True)
class ServerDeployment:
    """A server: its address, folder, keys; ``own`` names its own data and model."""

    address: Address
    folder: Path
    keys: Path | None
    own: dict[str, Any]
    verbose: bool = False

    def run(self) -> None:
        """Serve until a signal comes."""
        folder = self.folder.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        with hold(folder / LOCK):
            os.umask(0o077)
            sweep(folder)
            self._serve(folder)

    def _serve(self, folder: Path) -> None:
        own = {**self.own, "cwd": str(Path.cwd())}
        write_text(folder / "server.json", json.dumps(own))
        home = folder / "flwr"
        env = programs.environment(home, FEDSIFT_SERVER=str(folder))
        secured = self.address.ca is not None and self.keys is not None
        secret = self.keys / "superexec.secret" if secured and self.keys else None
        local = Address(_reachable(self.address.host), self.address.port, self.address.ca)
        link = programs.superlink(self.address, self.keys, folder)
        exec_ = programs.superexec(str(local), local.trust, secret)
        running = [
            Program(command, env, folder / f"{command[0]}.log", verbose=self.verbose)
            for command in (link, exec_)
        ]
        ready = _Once(lambda: self._register(local))
        keys = self.keys if secured else None
        remind = Reminder([] if keys is None else [keys / "server.crt", keys / "ca.crt"])

        def give_up() -> str | None:
            remind()
            return ready()

        if (reason := keep_running(running, give_up=give_up)) is not None:
            raise RunError(reason)

    def _register(self, local: Address) -> bool:
        """Register every site's key as soon as the server listens."""
        if not listens(local):
            return False
        from fedsift.flower.compat import Control  # noqa: PLC0415 - imports flwr

        keys = sorted((self.keys / "sites").glob("*.pub")) if self.keys and local.ca else []
        with Control(str(local), local.ca) as control:
            for key in keys:
                control.register(key.read_bytes(), key.stem)
        say(f"server ready on {self.address}, {len(keys)} sites may join")
        return True


@dataclass(frozen=True)
class SiteDeployment:
    """A site's part in a federation: the server's address, the site's key and folder.

    ``arguments`` are those of ``fedsift site``, which name the site's data and model.
    """

    address: Address
    key: Path | None
    folder: Path
    arguments: Sequence[str]
    give_up: float = 300.0
    verbose: bool = False

    def run(self) -> None:
        """Take part until a signal comes."""
        folder = self.folder.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        with hold(folder / LOCK):
            os.umask(0o077)  # all that a site writes is for its owner
            self._describe_site(folder)
            try:
                self._take_part(folder)
            finally:
                stop_site(folder)

    def _take_part(self, folder: Path) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: sys.exit(0))
        site = SiteCaller(folder)
        site.start()
        from fedsift.flower.compat import Session  # noqa: PLC0415 - slow; the site loads meanwhile
        from fedsift.flower.node import Node  # noqa: PLC0415

        key = load_or_make_key(self.key or folder / "node.key", make=self.key is None)
        link = Session(str(self.address), self.address.ca, key, register=self.key is None)
        remind = Reminder([] if self.address.ca is None else [self.address.ca])

        def sleep(seconds: float) -> None:
            remind()
            time.sleep(seconds)

        node = Node(link, site.ask, folder, str(self.address), self.give_up, sleep=sleep)
        if node.before is None:  # at a return the server should not wait for the data to be loaded
            site.connect().close()
            say("the site is running")
        say(f"joining {self.address}")
        node.run()

    def _describe_site(self, folder: Path) -> None:
        """Write how the site's process is started."""
        command = [
            sys.executable,
            "-m",
            "fedsift",
            "site",
            "--folder",
            str(folder),
            *self.arguments,
        ]
        say(f"+ {shlex.join(command)}", show=self.verbose)
        text = json.dumps({"command": command, "cwd": str(Path.cwd())})
        write_text(folder / COMMAND, text)


class Reminder:
    """Says, at once and then every day, which certificates end soon."""

    def __init__(
        self, certificates: Sequence[Path], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._certificates, self._clock, self._due = certificates, clock, clock()

    def __call__(self) -> None:
        """Say it if a day has passed."""
        if self._clock() < self._due:
            return
        self._due += DAY
        for path in self._certificates:
            warning = expiry(path)
            say(f"warning: {warning}", show=warning is not None)


def listens(address: Address) -> bool:
    """Return True if a server with the right certificate listens there."""
    try:
        with socket.create_connection((address.host, address.port), timeout=2) as plain:
            if address.ca is not None:
                context = ssl.create_default_context(cafile=str(address.ca))
                context.wrap_socket(plain, server_hostname=address.host).close()
    except ssl.SSLCertVerificationError as error:
        raise InputError(
            f"the certificate of {address} cannot be verified with {address.ca} "
            f"({error.verify_message}); give the CA that signed it"
        ) from None
    except OSError:
        return False
    return True


def free_port() -> int:
    """Return a port that is free on loopback now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class _Once:
    """Repeat a step until it is done, at most for ``START`` seconds."""

    def __init__(self, step: Callable[[], bool]) -> None:
        self._step, self._done = step, False
        self._end = time.monotonic() + START

    def __call__(self) -> str | None:
        self._done = self._done or self._step()
        late = not self._done and time.monotonic() > self._end
        return f"the server did not listen within {START:.0f} s; see its log" if late else None


def _reachable(host: str) -> str:
    """Return the host at which the server's own processes reach it."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def site_names(count: int) -> Sequence[str]:
    """Return the names of the first sites."""
    return [f"site-{m}" for m in range(count)]
