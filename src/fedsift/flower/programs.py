"""The command lines of Flower's own programs, and the environment they run in.

Telemetry, update checks and installing an app's dependencies are off unless the caller's own
environment says otherwise.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from fedsift.errors import InputError

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
}
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
# The name of our server in Flower's configuration; `flwr` takes the name of a folder for a path.
CONNECTION = f"fedsift-{secrets.token_hex(8)}"


@dataclass(frozen=True)
class Address:
    """Where the server is, and the CA that its certificate must come from; None: no TLS."""

    host: str
    port: int
    ca: Path | None

    @classmethod
    def parse(cls, text: str, ca: Path | None, *, insecure: bool) -> Address:
        """Read ``host:port``; without TLS only loopback is allowed."""
        host, _, port = text.rpartition(":")
        host = host.strip("[]")
        if not host or not port.isdigit():
            raise InputError(f"{text!r} is not an address; give host:port")
        if insecure and not is_loopback(host):
            raise InputError(f"--insecure is for loopback only and {host} is not; use TLS")
        if not insecure and ca is None:
            raise InputError("TLS needs the CA's certificate; give --ca, or --insecure on loopback")
        if ca is not None and not ca.exists():
            raise InputError(f"there is no file {ca}; make keys with `fedsift keys`")
        return cls(host, int(port), None if insecure or ca is None else ca.absolute())

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def trust(self) -> list[str]:
        """The options of a program that connects to the server: the CA it trusts."""
        return ["--insecure"] if self.ca is None else ["--root-certificates", str(self.ca)]


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def spare_loopback() -> None:
    """Keep what this machine says to itself from a proxy that the environment names."""
    given = os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""
    hosts = [host.strip() for host in given.split(",") if host.strip()]
    text = ",".join(dict.fromkeys([*hosts, *LOOPBACK_HOSTS]))
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = text


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return the environment of Flower's programs; ``home`` is where they keep their files."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**QUIET, **os.environ, "PATH": path, "FLWR_HOME": str(home.absolute()), **more}


def superlink(address: Address, keys: Path | None, folder: Path) -> list[str]:
    """Return the server's program: one port for SuperNodes, runs and its own processes."""
    command = ["flower-superlink", "--host", address.host, "--port", str(address.port)]
    command += ["--isolation", "process", "--database", str(folder / "superlink.db")]
    if address.ca is None or keys is None:
        return [*command, "--insecure"]
    return [
        *command,
        *("--ssl-certfile", str(keys / "server.crt")),
        *("--ssl-keyfile", str(keys / "server.key")),
        *("--ssl-ca-certfile", str(address.ca)),
        *("--superexec-auth-secret-file", str(keys / "superexec.secret")),
        "--enable-supernode-auth",
    ]


def superexec(address: str, trust: list[str], secret: Path | None) -> list[str]:
    """Return the program that starts an app's process when there is work for it."""
    command = ["flower-superexec", "--runtime-api-address", address, *trust]
    return command if secret is None else [*command, "--superexec-auth-secret-file", str(secret)]


def run(app: Path, run_config: Path) -> list[str]:
    """Return the program that starts a run and shows its log."""
    return ["flwr", "run", str(app), CONNECTION, "--stream", "--run-config", str(run_config)]


def log(number: str) -> list[str]:
    """Return the program that shows a run's log from its start."""
    return ["flwr", "log", number, CONNECTION, "--stream"]


def write_connection(home: Path, address: Address) -> None:
    """Write where the server is for Flower's command line."""
    trust: dict[str, str | bool] = (
        {"insecure": True} if address.ca is None else {"root-certificates": str(address.ca)}
    )
    text = tomli_w.dumps({"superlink": {CONNECTION: {"address": str(address), **trust}}})
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(text, encoding="utf-8")
