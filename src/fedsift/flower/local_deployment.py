"""A local trial federation: server and sites on loopback, started as a person would start them.

For tests, benchmarks, and whoever wants to try a deployment before doing it on several machines:

    with LocalDeployment(Path("trial"), {"north": "0.npz", "south": "1.npz"}) as federation:
        federation.submit("digits.toml", Path("runs/digits"))

``options`` are added to the commands of the server and of every site.

What it started is terminated: at the end of the ``with`` block, and on Linux also when the
process that started it is killed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from fedsift.errors import RunError
from fedsift.flower.deploy import free_port, site_names
from fedsift.flower.keys import LOOPBACK, make_keys
from fedsift.site import lifetime as site
from fedsift.site.lifetime import end_with_parent

START = 240.0  # seconds; a busy machine is slow to start a dozen processes
STOP = 30.0  # seconds to end by itself before it is killed


@dataclass(frozen=True)
class Network:
    """Where the server listens, and the prefix of a command there and at a site."""

    host: str = "127.0.0.1"
    server: tuple[str, ...] = ()
    site: tuple[str, ...] = ()


class LocalDeployment:
    """A server and a site per data file, each a process with its folder and its log."""

    def __init__(
        self,
        folder: Path,
        data: Mapping[str, str] | Sequence[str],
        network: Network = Network(),
        options: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.folder, self.network, self.options = folder.absolute(), network, options or {}
        named = data if isinstance(data, Mapping) else {str(m): d for m, d in enumerate(data)}
        self.names, self.data = list(named), list(named.values())
        self.port = free_port()
        self.keys = self.folder / "keys"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._printed: dict[str, int] = {}  # bytes of a log before its command was last started

    @property
    def address(self) -> str:
        """Where the server is."""
        return f"{self.network.host}:{self.port}"

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        far = () if self.network.host in LOOPBACK else (self.network.host,)
        make_keys(self.keys, site_names(len(self.data)), far)
        try:
            self.start_server()
            for m in range(len(self.data)):
                self.join(m)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start_server(self) -> None:
        """Start the server and wait until sites may join."""
        server = ["server", "--keys", str(self.keys), "--folder", str(self.folder / "server")]
        where = ("--host", self.network.host, "--port", str(self.port))
        self.start("server", *server, *where, *self.options.get("server", ()))
        self.wait_for("server", "server ready")

    def join(self, m: int) -> None:
        """Start site m."""
        self.start(
            f"site-{m}",
            *("join", "--server", self.address, "--ca", str(self.keys / "ca.crt")),
            *("--key", str(self.keys / "sites" / f"site-{m}"), "--client", str(m)),
            *("--folder", str(self.folder / f"site-{m}"), "--data", self.data[m]),
            *("--name", self.names[m], *self.options.get("site", ())),
        )

    def submit(self, config: str, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
        """Run a configuration to its end."""
        command = ["submit", config, "--server", self.address, "--out", str(out)]
        command += ["--ca", str(self.keys / "ca.crt"), *more]
        return subprocess.run(
            self.command("submit", *command), capture_output=True, text=True, check=False
        )

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command of ours; its output goes to a log beside the folders."""
        with self.log(name).open("ab") as log:
            self._printed[name] = log.tell()
            process = subprocess.Popen(
                self.command(name, *arguments),
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - called from the main thread only
            )
        self.processes[name] = process
        return process

    def command(self, name: str, *arguments: str) -> list[str]:
        """Return how a command of ours is started."""
        before = self.network.site if name.startswith("site-") else self.network.server
        return [*before, sys.executable, "-m", "fedsift", *arguments]

    def log(self, name: str) -> Path:
        """Return where the output of a command goes."""
        return self.folder / f"{name}.out"

    def wait_for(self, name: str, text: str, seconds: float = START) -> None:
        """Wait until a command has printed a text."""
        end = time.monotonic() + seconds
        while text not in (printed := self._since_start(name)):
            if self.processes[name].poll() is not None or time.monotonic() > end:
                raise RunError(f"{name} did not print '{text}' but '{printed[-500:]}'")
            time.sleep(0.2)

    def _since_start(self, name: str) -> str:
        """Return what a command has printed since it was last started."""
        return self.log(name).read_bytes()[self._printed[name] :].decode(errors="replace")

    def stop(self) -> None:
        """Terminate everything, the sites first."""
        for name in reversed(self.processes):
            self.processes[name].terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=STOP)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for m in range(len(self.data)):
            site.stop(self.folder / f"site-{m}")
