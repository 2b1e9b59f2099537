"""Secure sums against plain ones: bytes, time and error of rounds of FedAvg, with absent clients.

    python -m benchmarks secure_sum

10 clients with 500 samples of MNIST's shape each, 16 rounds, so that one exchange of keys is
counted in full; a perceptron of 10^5 parameters, whose local steps cost next to nothing, and the
paper's network, of about that size. All clients share one core, so the times are of all masks.
Rounds of both kinds in turn, CPU time of this process; the first, which asks for the sizes of
numbers, is left out of the times and not of the bytes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from fedsift.algorithms.fedavg import FedAvg
from fedsift.algorithms.state import Server, ServerState
from fedsift.client import Client
from fedsift.federation import LocalFederation, SecureSumFederation
from fedsift.messages import ClientId, Federation, Reply, Request
from fedsift.problem import FlatModel, Reweighting, batch_of
from fedsift.problem.networks import paper_cnn
from fedsift.problem.sgd import LocalSteps

CLIENTS, SAMPLES, ROUNDS = 10, 500, 16
NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 126), nn.ReLU(), nn.Linear(126, 10)),
    "cnn": lambda: paper_cnn(1, 28, 10),
}


class Absent:
    """A federation of which the first clients reply to no training request."""

    def __init__(self, inner: Federation, absent: int) -> None:
        self.inner, self.absent = inner, absent

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def ask(self, request: Request, clients: list[ClientId]) -> list[Reply]:
        """Ask all of them."""
        replies = self.inner.ask(request, clients)
        if request.action != "train":
            return replies
        silent = [Reply(r.client, r.num_samples, error="silent") for r in replies[: self.absent]]
        return [*silent, *replies[self.absent :]]


def make(network: str, absent: int) -> tuple[LocalFederation, Absent, Reweighting]:
    source = torch.Generator().manual_seed(0)
    problem = Reweighting(FlatModel(NETWORKS[network]()))
    clients = []
    for m in range(CLIENTS):
        inputs = torch.randn(SAMPLES, 1, 28, 28, generator=source)
        labels = torch.randint(10, (SAMPLES,), generator=source)
        clients.append(Client(m, problem, batch_of(inputs, labels), 0))
    local = LocalFederation(clients, pool=False)
    return local, Absent(local, absent), problem


class Run:
    """Rounds of FedAvg from the same model, secure or plain."""

    def __init__(self, network: str, absent: int, *, secure: bool) -> None:
        self.local, inner, problem = make(network, absent)
        self.federation = SecureSumFederation(inner) if secure else inner
        self.server = Server(problem, next(iter(self.local.clients.values())).batch)
        start = torch.randn(problem.model.length, generator=torch.Generator().manual_seed(1))
        self.state, self.seconds = ServerState(0.03 * start), []

    def round(self, k: int) -> None:
        """Do a round and note its time."""
        algorithm = FedAvg(LocalSteps(steps=5, batch_size=64, lr=0.1))
        start = time.process_time()
        _, self.state = algorithm.round(self.federation, self.server, self.state, k)
        self.seconds.append(time.process_time() - start)

    @property
    def bytes(self) -> int:
        """Return what has travelled."""
        return self.local.traffic.bytes_up + self.local.traffic.bytes_down


def measure() -> dict[str, float]:
    """Return ratios secure / plain, by the number of absent clients."""
    found: dict[str, float] = {}
    for network, absent in (("mlp", 0), ("cnn", 0), ("cnn", 3)):
        plain, secure = (Run(network, absent, secure=secure) for secure in (False, True))
        start = plain.state.y
        for k in range(ROUNDS):
            plain.round(k)
            secure.round(k)
        times = [s / p for s, p in zip(secure.seconds[1:], plain.seconds[1:], strict=True)]
        drift = (secure.state.y - plain.state.y).abs().max() / (plain.state.y - start).abs().max()
        key = f"secure_sum_{network}_{absent}_absent"
        found |= {
            f"{key}_parameters": float(len(start)),
            f"{key}_bytes": secure.bytes / plain.bytes,
            f"{key}_time": statistics.median(times),
            f"{key}_time_least": min(times),
            f"{key}_time_most": max(times),
            f"{key}_drift": float(drift),
        }
    return found
