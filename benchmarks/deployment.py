"""Seconds a round on every engine, and bytes on the wire against our own count.

Nodes reach the server through a proxy on loopback that counts what passes, as TCP carries it: TLS,
HTTP, Flower's own questions and all. What passes without a run is measured too and taken off.
"""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedsift.experiment.config import Config
from fedsift.experiment.run import execute
from fedsift.experiment.setup import load_data
from fedsift.federation.flower.rehearsal import Rehearsal

ROUNDS = 4
IDLE = 20.0
METHODS: dict[str, dict[str, Any]] = {
    "single-loop": {"method": "single-loop"},
    "iter-sketch": {"method": "iter-sketch", "iterations": 5},
}


class Proxy:
    """Passes connections on and counts their bytes: to the server up, from it down."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.target = 0
        self.up = self.down = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def total(self) -> int:
        """All bytes so far, both ways."""
        return self.up + self.down

    def _accept(self) -> None:
        while True:
            near, _ = self.listener.accept()
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            for source, sink, way in ((near, far, "up"), (far, near, "down")):
                threading.Thread(target=self._pump, args=(source, sink, way), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, way: str) -> None:
        try:
            while data := source.recv(2**16):
                setattr(self, way, getattr(self, way) + len(data))
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            sink.close()


def measure() -> dict[str, float]:
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="fs-") as name:
        folder = Path(name)
        for clients in (3, 10):
            found |= _deployed(folder / str(clients), clients)
        found |= _elsewhere(folder / "else")
    return found


def _config(clients: int, method: str) -> Config:
    return replace(Config(dataset="digits", clients=clients, rounds=ROUNDS), **METHODS[method])


def _sites(config: Config, folder: Path) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    for m, client in enumerate(load_data(config.resolve()).clients):
        arrays = {"inputs": client.inputs.numpy(), "labels": client.labels.numpy()}
        np.savez(folder / f"{m}.npz", **arrays)
    return [str(folder / f"{m}.npz") for m in range(config.clients)]


def _seconds(run: Path) -> float:
    """Return the median of all rounds but the first, in which sites load what they need."""
    records = [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]
    return statistics.median(record["seconds"] for record in records[1:])


def _deployed(folder: Path, clients: int) -> dict[str, float]:
    found: dict[str, float] = {}
    proxy = Proxy()
    federation = Rehearsal(folder, _sites(_config(clients, "single-loop"), folder / "data"))
    proxy.target, federation.door = federation.port, proxy.port
    with federation:
        for method in METHODS:
            path, out = folder / f"{method}.toml", folder / "runs" / method
            path.write_text(_config(clients, method).to_toml())
            before, start = proxy.total, time.monotonic()
            done = federation.submit(str(path), out)
            if done.returncode:
                raise RuntimeError(done.stdout + done.stderr)
            passed, took = proxy.total - before, time.monotonic() - start
            time.sleep(5)
            rest = proxy.total
            time.sleep(IDLE)
            idle = (proxy.total - rest) / IDLE
            summary = json.loads((out / "summary.json").read_text())
            counted = summary["bytes_up"] + summary["bytes_down"]
            key = f"deployment.{method}.{clients}_nodes"
            found |= {
                f"{key}.seconds_a_round": _seconds(out),
                f"{key}.bytes_counted": counted,
                f"{key}.bytes_on_the_wire": passed,
                f"{key}.bytes_idle_a_second": idle,
                f"{key}.wire_over_counted": (passed - idle * took) / counted,
            }
    return found


def _elsewhere(folder: Path) -> dict[str, float]:
    """Do the same in process and in the simulation engine, with 10 clients."""
    found: dict[str, float] = {}
    _sites(_config(10, "single-loop"), folder / "sites")
    for method in METHODS:
        config = _config(10, method)
        path, out = folder / f"{method}.toml", folder / f"simulated-{method}"
        path.write_text(config.to_toml())
        program = [sys.executable, "-m", "fedsift.federation.flower.simulated"]
        arguments = [str(path), str(folder / "sites"), str(out)]
        subprocess.run([*program, *arguments], check=True, capture_output=True)
        execute(config, folder / f"local-{method}")
        found[f"deployment.{method}.simulation.seconds_a_round"] = _seconds(out)
        local = _seconds(folder / f"local-{method}")
        found[f"deployment.{method}.in_process.seconds_a_round"] = local
    return found
