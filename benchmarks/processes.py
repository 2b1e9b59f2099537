"""Two processes of one thread each against one: the paper's CNN, 10 clients, two methods.

``processes_*_cpu``    processor time of a round in one process over that of the busier of two:
                       what two free cores give, whatever else the machine does
``processes_*_wall``   the same by the clock, which needs a quiet machine

Clients compute for themselves (``pool = false``), so that all do the same work, bit for bit.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import torch

from fedsift.experiment.config import Config
from fedsift.experiment.loop import rounds
from fedsift.experiment.setup import from_config
from fedsift.federation import LocalFederation, ShardedFederation, serve
from fedsift.federation.link import Link

METHODS, ROUNDS = ("fedavg", "single-loop"), 3


def measure() -> dict[str, float]:
    """Run both ways in processes of their own."""
    out = {}
    for method in METHODS:
        (alone,) = _run(method, 1)
        first, second = _run(method, 2)
        name = method.replace("-", "_")
        out[f"processes_{name}_cpu"] = alone[0] / max(first[0], second[0])
        out[f"processes_{name}_wall"] = alone[1] / first[1]
    return out


def _run(method: str, size: int) -> list[tuple[float, float]]:
    """Return seconds of the processor and of the clock, a pair for every process."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    shared |= {"OMP_NUM_THREADS": "1", "WORLD_SIZE": str(size), "GLOO_SOCKET_IFNAME": "lo"}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.processes", method],
            env={**shared, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    texts = [process.communicate()[0].split() for process in started]
    return [(float(text[-2]), float(text[-1])) for text in texts]


def main(method: str) -> None:
    """Be one of the processes; print its seconds after the first round."""
    torch.set_num_threads(1)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    link = Link.join(rank, size)
    config = Config.of(
        dataset="mnist", method=method, rounds=ROUNDS, pool=False, inner_lr=0.05, seed=20
    ).resolve()
    setup = from_config(config.replace(eval_every=ROUNDS + 1), federate=LocalFederation)
    federation = setup.federation
    assert isinstance(federation, LocalFederation)
    if rank > 0:
        start = time.process_time()
        serve(federation, link)
        print((time.process_time() - start) * (ROUNDS - 1) / ROUNDS, 0.0)
        return
    if size > 1:
        setup = from_config(
            setup.config, federate=lambda *c, **more: ShardedFederation(*c, link=link, **more)
        )
    state, marks = setup.initial_state(), []
    for done in rounds(setup, state, 0):
        state = done.state
        marks.append((time.process_time(), time.perf_counter()))
    if isinstance(setup.federation, ShardedFederation):
        setup.federation.close()
    (cpu, wall), (cpu_end, wall_end) = marks[0], marks[-1]
    print(cpu_end - cpu, wall_end - wall)


if __name__ == "__main__":
    main(sys.argv[1])
