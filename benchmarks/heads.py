"""A round of out-of-fold beside FedAvg's, on the same linear head.

10 clients x 500 samples with 1,280 features, 500 clean samples, all keys at their defaults, one
thread: on so little work a second one only waits. The features are random around class means.
"""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.rounds import Runner
from benchmarks.timing import ratio
from fedsift.data import ClientData, FederatedData
from fedsift.experiment.config import Config
from fedsift.experiment.setup import from_data
from fedsift.problem.networks import build_model
from fedsift.randomness import generator

CLIENTS, SAMPLES, WIDTH, CLASSES = 10, 500, 1280, 10


def data() -> FederatedData:
    """Return clients with random features."""
    source = generator(0, "benchmark")
    means = torch.rand(CLASSES, WIDTH, generator=source)

    def draw(count: int) -> tuple[Tensor, Tensor]:
        labels = torch.randint(CLASSES, (count,), generator=source)
        return means[labels] + torch.rand(count, WIDTH, generator=source), labels

    members = [ClientData(*draw(SAMPLES), None, torch.arange(SAMPLES)) for _ in range(CLIENTS)]
    names = tuple(str(number) for number in range(CLASSES))
    return FederatedData("random", members, draw(SAMPLES), draw(100), names)


def runner(federated: FederatedData, method: str) -> Runner:
    """Make a method ready, at the defaults that a user gets."""
    module = build_model("linear", (WIDTH,), CLASSES, seed=0)
    setup = from_data(Config.of(method=method), federated, module)
    return Runner(setup, setup.initial_state())


def sent(run: Runner) -> tuple[int, int]:
    """Return the bytes and exchanges of one more round."""
    before = run.setup.federation.traffic
    run()
    traffic = run.setup.federation.traffic - before
    return traffic.bytes_up + traffic.bytes_down, traffic.exchanges


def measure() -> dict[str, float]:
    """Compare a round with FedAvg's."""
    federated = data()
    folds, fedavg = runner(federated, "out-of-fold"), runner(federated, "fedavg")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found = {"time": ratio(folds, fedavg, repeats=25, warm_up=3)}
    finally:
        torch.set_num_threads(threads)
    mine, other = sent(folds), sent(fedavg)
    found |= {"bytes": mine[0] / other[0], "exchanges": mine[1] / other[1]}
    return {f"out_of_fold_{name}_over_fedavg_{name}": value for name, value in found.items()}
