"""Rounds on the paper's MNIST setting: 10 clients x 500 samples, batch 256, T = 5, the paper's CNN.

Stacking is measured where it is meant: 50 clients x 50 samples, full batches, the digits network.
The images are random: times do not depend on them, and no download is needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.timing import ratio, seconds
from fedsift.algorithms import Algorithm, ServerState, single_loop
from fedsift.client import single_loop as client_step
from fedsift.client import training
from fedsift.client.follow import Follower
from fedsift.compress import CountSketch, TopK
from fedsift.data import ClientData, FederatedData
from fedsift.experiment.config import Config, read_by
from fedsift.experiment.paper_grid import PINNED
from fedsift.experiment.setup import Setup, from_data
from fedsift.problem.networks import build_model
from fedsift.randomness import generator

CLIENTS, SAMPLES, BATCH, STEPS, LR, L2 = 10, 500, 256, 5, 0.01, 1e-3


def data(clients: int = CLIENTS, samples: int = SAMPLES, side: int = 28) -> FederatedData:
    """Return clients with random images and labels."""
    source = generator(0, "benchmark")

    def draw(count: int) -> tuple[Tensor, Tensor]:
        images = torch.randn(count, 1, side, side, generator=source)
        return images, torch.randint(10, (count,), generator=source)

    members = [ClientData(*draw(samples), None, torch.arange(samples)) for _ in range(clients)]
    names = tuple("0123456789")
    return FederatedData("random", members, draw(samples), draw(100), names)


@dataclass
class Runner:
    """A method that does its next round when called."""

    setup: Setup
    state: ServerState
    k: int = 0

    def __call__(self) -> None:
        """Do the next round."""
        algorithm: Algorithm = self.setup.algorithm
        _, self.state = algorithm.round(
            self.setup.federation, self.setup.server, self.state, self.k
        )
        self.k += 1


def runner(
    federated: FederatedData,
    method: str,
    model: str = "paper_cnn",
    *,
    pool: bool = True,
    compressor: str = "auto",
) -> Runner:
    """Make a method ready on the paper's setting."""
    local = {"local_steps": STEPS, "inner_lr": LR, "batch_size": BATCH, "l2": L2}
    keys = {**PINNED, **local, "compressor": compressor, "head_start": 0}
    config = Config.of(method=method, **read_by(method, keys))
    shape = tuple(federated.clients[0].inputs.shape[1:])
    setup = from_data(config, federated, build_model(model, shape, 10, seed=0))
    setup.federation.pool = pool  # type: ignore[union-attr]
    return Runner(setup, setup.initial_state())


def plain_loop(federated: FederatedData, layout: torch.memory_format) -> Callable[[], None]:
    """Return FedAvg as one would write it by hand: a module, an optimiser, a mean."""
    model = build_model("paper_cnn", (1, 28, 28), 10, seed=0).to(memory_format=layout)
    start = {n: p.detach().clone() for n, p in model.named_parameters()}
    source = torch.Generator().manual_seed(0)

    def round_() -> None:
        mean = {n: torch.zeros_like(p) for n, p in start.items()}
        for member in federated.clients:
            with torch.no_grad():
                for n, p in model.named_parameters():
                    p.copy_(start[n])
            optimiser = torch.optim.SGD(model.parameters(), LR, weight_decay=L2)
            for _ in range(STEPS):
                rows = torch.randperm(SAMPLES, generator=source)[:BATCH]
                optimiser.zero_grad()
                _loss(model, member.inputs[rows], member.labels[rows]).backward()
                optimiser.step()
            with torch.no_grad():
                for n, p in model.named_parameters():
                    mean[n] += p / CLIENTS
        start.update(mean)

    return round_


def _loss(model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(model(inputs), labels)


def measure() -> dict[str, float]:
    """Compare rounds of the methods with FedAvg's, and FedAvg's with the plain loop."""
    federated = data()
    fedavg, single = runner(federated, "fedavg"), runner(federated, "single-loop")
    fast, default = torch.channels_last, torch.contiguous_format
    apart, together = (
        runner(federated, "single-loop", pool=p, compressor="count-sketch") for p in (False, True)
    )
    small = data(clients=50, samples=50, side=8)
    one_by_one, stacked = (runner(small, "fedavg", "digits_cnn", pool=p) for p in (False, True))
    out = {
        "fedavg_over_plain_loop": ratio(fedavg, plain_loop(federated, fast), repeats=5),
        "fedavg_over_plain_loop_default_layout": ratio(
            fedavg, plain_loop(federated, default), repeats=3
        ),
        "single_loop_round_over_fedavg_round": ratio(single, fedavg, repeats=5),
        "unpooled_over_pooled_round": ratio(apart, together, repeats=3),
        "one_by_one_over_stacked_round": ratio(one_by_one, stacked),
    }
    for name, run in (("fedavg", fedavg), ("single_loop", single)):
        before = run.setup.federation.traffic
        run()
        sent = run.setup.federation.traffic - before
        out[f"{name}_bytes"] = float(sent.bytes_up + sent.bytes_down)
        out[f"{name}_exchanges"] = float(sent.exchanges)
    for unit in ("bytes", "exchanges"):
        top, bottom = out.pop(f"single_loop_{unit}"), out.pop(f"fedavg_{unit}")
        out[f"single_loop_{unit}_over_fedavg_{unit}"] = top / bottom
    return out | breakdown(single)


PARTS: dict[str, tuple[tuple[object, str], ...]] = {
    "local_steps": ((training, "local_sgd"), (client_step, "local_sgd")),
    "product_and_scores": ((Follower, "__call__"), (client_step, "joint_pass")),
    "compression": ((CountSketch, "compress"), (CountSketch, "decompress"), (TopK, "compress")),
    "server_gradient": ((single_loop, "outer_gradients_at"),),
}


def breakdown(run: Runner, rounds: int = 3) -> dict[str, float]:
    """Return each part's share of a single-loop round."""
    spent = dict.fromkeys(PARTS, 0.0)

    def timed(part: str, work: Callable[..., object]) -> Callable[..., object]:
        def wrapper(*args: object, **kwargs: object) -> object:
            start = time.perf_counter()
            result = work(*args, **kwargs)
            spent[part] += time.perf_counter() - start
            return result

        return wrapper

    saved = {place: getattr(*place) for places in PARTS.values() for place in places}
    try:
        for part, places in PARTS.items():
            for place in places:
                setattr(*place, timed(part, saved[place]))
        total = sum(seconds(run) for _ in range(rounds))
    finally:
        for place, work in saved.items():
            setattr(*place, work)
    spent["local_steps"] -= spent["product_and_scores"]  # which watches them
    shares = {f"share_of_{part}": took / total for part, took in spent.items()}
    return shares | {"share_of_overhead": 1.0 - sum(shares.values())}
