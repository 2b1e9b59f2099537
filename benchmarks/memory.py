"""Peak memory against the number of clients, beyond the raw data; each size in its own process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

from fedsift.data import ClientData, FederatedData
from fedsift.experiment.config import Config, read_by
from fedsift.experiment.paper_grid import PINNED
from fedsift.experiment.setup import from_data
from fedsift.problem.networks import build_model
from fedsift.randomness import generator

SAMPLES, COHORT, ROUNDS = 50, 20, 3


def peak(clients: int, method: str) -> float:
    """Return the peak of a run in bytes, without the raw data, in this process."""
    source = generator(0, "benchmark")
    images = torch.randn(clients * SAMPLES, 1, 8, 8, generator=source)
    labels = torch.randint(10, (clients * SAMPLES,), generator=source)
    rows = torch.arange(SAMPLES)
    members = [
        ClientData(images[i : i + SAMPLES], labels[i : i + SAMPLES], None, rows)
        for i in range(0, len(labels), SAMPLES)
    ]
    few = (images[:100], labels[:100])
    federated = FederatedData("random", members, few, few, tuple("0123456789"))
    keys = {**PINNED, "rounds": ROUNDS, "cohort": COHORT, "head_start": 0}
    config = Config.of(method=method, **read_by(method, keys))
    setup = from_data(config, federated, build_model("digits_cnn", (1, 8, 8), 10, seed=0))
    state = setup.initial_state()
    for k in range(ROUNDS):
        _, state = setup.algorithm.round(setup.federation, setup.server, state, k)
    raw = images.numel() * 4 + labels.numel() * 8
    status = Path("/proc/self/status").read_text()  # ru_maxrss would be inherited from the parent
    peak_kb = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return int(peak_kb) * 1024 - raw


def measure() -> dict[str, float]:
    """Compare 10,000 clients with 100."""
    sizes = {n: _in_process(n) for n in (100, 10_000)}
    return {
        "memory_100_clients_mb": sizes[100] / 1e6,
        "memory_10000_clients_mb": sizes[10_000] / 1e6,
        "memory_10000_clients_over_100": sizes[10_000] / sizes[100],
    }


def _in_process(clients: int, method: str = "single-loop") -> float:
    code = f"from benchmarks.memory import peak; print(peak({clients}, {method!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)
