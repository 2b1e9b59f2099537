"""The processes of one run: started here by ``--processes``, or by ``torchrun``.

Rank 0 is the run as always. The others build the same data and model, serve rank 0 and write
nothing. They leave an interrupt to rank 0, which needs them for a last checkpoint.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from fedsift.errors import InputError
from fedsift.experiment.setup import Federate, Setup
from fedsift.federation import LocalFederation, ShardedFederation, serve
from fedsift.federation.link import Link
from fedsift.federation.sharded import failed

END = 10.0  # seconds that the others have to end


@dataclass(frozen=True)
class Maker:
    """Makes a federation, and remembers it."""

    kind: Federate
    all: list[LocalFederation] = field(default_factory=list)

    def __call__(self, *clients: Any, **more: Any) -> LocalFederation:
        """Make one."""
        self.all.append(self.kind(*clients, **more))
        return self.all[-1]


@contextmanager
def together(count: int, arguments: Sequence[str]) -> Iterator[Link | None]:
    """Join the other processes, or start them; None where there is only this one."""
    if count < 1:
        raise InputError(f"--processes is {count}; give at least 1")
    started: list[subprocess.Popen[bytes]] = []
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if size > 1:
        if rank > 0:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    elif count > 1:
        size, started = count, _start(count, arguments)
    link = Link.join(rank, size) if size > 1 else None
    try:
        yield link
    finally:
        if link is not None:
            link.leave()
        for process in started:
            _end(process)


@contextmanager
def leading(link: Link | None) -> Iterator[Federate]:
    """Give rank 0 what makes its federation; let the others end with it."""
    if link is None:
        yield LocalFederation
        return
    made = Maker(partial(ShardedFederation, link=link))
    try:
        yield made
    finally:
        for federation in made.all:
            assert isinstance(federation, ShardedFederation)
            federation.close()


def work(link: Link, build: Callable[[Federate], Setup]) -> None:
    """Be another rank than 0: build the run, serve rank 0."""
    made = Maker(LocalFederation)
    try:
        setup = build(made)
    except Exception as error:
        failed(link, error)
        raise
    serve(made.all[-1], link, setup.device)


def _start(count: int, arguments: Sequence[str]) -> list[subprocess.Popen[bytes]]:
    """Start the other processes with the same arguments, on loopback, and share the cores."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    threads = max(1, torch.get_num_threads() // count)
    torch.set_num_threads(threads)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    shared = {**os.environ, "WORLD_SIZE": str(count), "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-m", "fedsift", *arguments]
    silent = subprocess.DEVNULL
    return [
        subprocess.Popen(
            command,
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=silent,
            stderr=silent,  # what went wrong comes to rank 0 as a message
        )
        for rank in range(1, count)
    ]


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
