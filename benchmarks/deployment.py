"""Seconds per round on every engine, and bytes between sites and server as the kernel saw them.

    in process    10 clients in this process
    n nodes       a SuperLink, n SuperNodes and n sites on loopback, with TLS and registered keys

All on digits; a figure is the median over all rounds but the first, in which sites load what they
need.

For the bytes, the server and 3 sites are in two network namespaces with a cable between. A site's
processes talk to each other over their own loopback, so what passes the cable is what SuperNodes
and SuperLink say to each other. Segments are not joined, so that each has its headers, as on a real
wire. Counted are the rounds after the first:

    over counted    all that passed / our own count
    a second        what passes while nothing runs: a SuperNode asks for work
    a byte          what a byte more in a message costs, from a large and a small model
    a message       what an empty message would cost: the rest

If that is all there is, it must add up for another method too; ``explained`` is the sum over what
passed in a run of iter-sketch, which had no part in it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedsift.errors import RunError
from fedsift.experiment.config import Config, read_by
from fedsift.experiment.paper_grid import PINNED
from fedsift.experiment.run import execute
from fedsift.experiment.setup import load_data
from fedsift.flower.local_deployment import LocalDeployment, Network

METHODS: dict[str, dict[str, Any]] = {
    "single_loop": {"method": "single-loop", "compressor": "count-sketch", "rounds": 6},
    "iter_sketch": {"method": "iter-sketch", "iterations": 5, "rounds": 3},
}
IDLE = 30.0  # seconds of listening while nothing runs
SPACES, ENDS, HOSTS = ("fs-server", "fs-sites"), ("fs0", "fs1"), ("10.77.0.1", "10.77.0.2")
HEADERS = 14 + 20 + 32  # bytes of Ethernet, IP and TCP with time stamps


def measure() -> dict[str, float]:
    """Measure every engine, then the bytes."""
    if importlib.util.find_spec("flwr") is None:
        print("  left out: Flower is not installed; pip install 'fedsift[flower]'")
        return {}
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"  # of what is started here: many processes, few cores
    try:
        with tempfile.TemporaryDirectory(prefix="fs-") as name:
            return _measure(Path(name))
    finally:
        del os.environ["OMP_NUM_THREADS"]
        os.environ |= {} if before is None else {"OMP_NUM_THREADS": before}


def _measure(folder: Path) -> dict[str, float]:
    found = _here(folder / "here")
    for nodes in (3, 10):
        found |= _deployed(folder / str(nodes), nodes)
    try:
        with _cable() as network:
            return found | _wire(folder / "wire", network)
    except NoNamespacesError as error:
        print(f"  bytes on the wire are left out: no network namespaces here ({error})")
        return found


def _config(clients: int, method: str, **more: Any) -> Config:
    keys = {**read_by(METHODS[method]["method"], PINNED), **METHODS[method], **more}
    return Config.of(dataset="digits", clients=clients, **keys).resolve()


def _sites(config: Config, folder: Path) -> list[str]:
    """Write every client's samples to a file."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{m}.npz" for m in range(config.clients)]
    for path, client in zip(paths, load_data(config).clients, strict=True):
        np.savez(path, inputs=client.inputs.numpy(), labels=client.labels.numpy())
    return [str(path) for path in paths]


def _records(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]


def _seconds(run: Path) -> float:
    return statistics.median(float(record["seconds"]) for record in _records(run)[1:])


def _here(folder: Path) -> dict[str, float]:
    for method in METHODS:
        execute(_config(10, method), folder / method)
    return {f"deployment_seconds_{m}_in_process": _seconds(folder / m) for m in METHODS}


def _deployed(folder: Path, nodes: int) -> dict[str, float]:
    data = _sites(_config(nodes, "single_loop"), folder / "data")
    with LocalDeployment(folder, data) as federation:
        runs = {m: _submit(federation, _config(nodes, m), m) for m in METHODS}
    return {f"deployment_seconds_{m}_{nodes}_nodes": _seconds(run) for m, run in runs.items()}


def _submit(federation: LocalDeployment, config: Config, name: str) -> Path:
    path, out = federation.folder / f"{name}.toml", federation.folder / "runs" / name
    path.write_text(config.to_toml())
    _check(federation.submit(str(path), out, "--timeout", "120"))
    return out


def _check(done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode:
        raise RunError(f"{' '.join(done.args)} failed: {(done.stdout + done.stderr)[-2000:]}")


@dataclass(frozen=True)
class Passed:
    """What passed the cable in some time, by the kernel's count and by ours."""

    bytes: int
    packets: int
    seconds: float
    counted: int = 0
    messages: int = 0

    @property
    def stream(self) -> int:
        """Bytes within TCP."""
        return self.bytes - HEADERS * self.packets


def _wire(folder: Path, network: Network) -> dict[str, float]:
    large, other = _config(3, "single_loop"), _config(3, "iter_sketch")
    small = _config(3, "single_loop", model="linear")
    with LocalDeployment(folder, _sites(large, folder / "data"), network) as federation:
        a, b, c = (_watch(federation, *run) for run in ((large, "a"), (small, "b"), (other, "c")))
        before = _counters(federation)
        time.sleep(IDLE)
        idle = _between(before, _counters(federation))
    second, waiting = idle.bytes / idle.seconds, a.seconds - b.seconds
    byte = (a.bytes - b.bytes - second * waiting) / (a.counted - b.counted)
    within = (a.stream - b.stream - idle.stream / idle.seconds * waiting) / (a.counted - b.counted)
    message = (b.bytes - second * b.seconds - byte * b.counted) / b.messages
    explained = byte * c.counted + message * c.messages + second * c.seconds
    return {
        "wire_bytes_over_counted_bytes_single_loop": a.bytes / a.counted,
        "wire_bytes_over_counted_bytes_iter_sketch": c.bytes / c.counted,
        "wire_bytes_a_byte": byte,
        "wire_bytes_a_byte_within_tcp": within,
        "wire_bytes_a_message": message,
        "wire_bytes_a_second_of_a_waiting_node": second / large.clients,
        "wire_bytes_explained_iter_sketch": explained / c.bytes,
    }


def _watch(federation: LocalDeployment, config: Config, name: str) -> Passed:
    """Do a run; return what passed from the end of its first round to the end of its last."""
    marks: list[tuple[float, int, int]] = []
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.01):
            runs = list((federation.folder / "server" / "runs").glob(f"{name}-*/rounds.jsonl"))
            if runs and len(marks) < runs[0].read_text().count("\n"):
                marks.append(_counters(federation))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        records = _records(_submit(federation, config, name))[1:]
    finally:
        done.set()
        watcher.join()
    counted = sum(r["bytes_up"] + r["bytes_down"] for r in records)
    messages = 2 * config.clients * sum(r["exchanges"] for r in records)
    return _between(marks[0], marks[-1], counted, messages)


def _between(
    start: tuple[float, int, int], end: tuple[float, int, int], counted: int = 0, messages: int = 0
) -> Passed:
    seconds, size, packets = (b - a for a, b in zip(start, end, strict=True))
    return Passed(int(size), int(packets), seconds, counted, messages)


def _counters(federation: LocalDeployment) -> tuple[float, int, int]:
    """Return the time, and the bytes and packets that have passed the cable, both ways."""
    pid = federation.processes["site-0"].pid
    lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()
    fields = next(line.split(":")[1].split() for line in lines if ENDS[1] in line)
    received, sent = fields[:2], fields[8:10]
    size, packets = (int(r) + int(s) for r, s in zip(received, sent, strict=True))
    return time.monotonic(), size, packets


class NoNamespacesError(RunError):
    """Raised where networks cannot be made."""


@contextmanager
def _cable() -> Iterator[Network]:
    """Make two namespaces with a cable between them; take them away at the end."""

    def ip(text: str) -> None:
        try:
            subprocess.run(["ip", *text.split()], check=True, capture_output=True)
        except OSError as error:
            raise NoNamespacesError(str(error)) from None
        except subprocess.CalledProcessError as error:
            raise NoNamespacesError(error.stderr.decode().strip()) from None

    made = []
    try:
        for space in SPACES:
            ip(f"netns add {space}")
            made.append(space)
        (here, there), (near, far) = SPACES, ENDS
        ip(f"link add {near} netns {here} type veth peer name {far} netns {there}")
        for space, end, host in zip(SPACES, ENDS, HOSTS, strict=True):
            ip(f"-n {space} address add {host}/24 dev {end}")
            ip(f"-n {space} link set {end} gso_max_segs 1 up")
            ip(f"-n {space} link set lo up")
        server, site = (("ip", "netns", "exec", space) for space in SPACES)
        yield Network(HOSTS[0], server, site)
    finally:
        for space in made:
            subprocess.run(["ip", "netns", "delete", space], check=False)
