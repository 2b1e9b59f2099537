"""Rounds of first-order and clean-step beside FedAvg's, one thread.

| here      | sites x samples | clean | model        | keys                                     |
|-----------|-----------------|-------|--------------|------------------------------------------|
| `digits`  | 10 x 100        | 100   | `digits_cnn` | defaults, inner_lr 0.1, no head start    |
| `paper`   | 10 x 500        | 500   | `paper_cnn`  | the paper's MNIST setting, as in `rounds` |
| `mnist`   | 10 x 500        | 500   | `paper_cnn`  | defaults, inner_lr 0.1, no head start    |

Images are random: times do not depend on them. The head start and the trial of step sizes come
before the first round only.
"""

from __future__ import annotations

import torch

from benchmarks import rounds
from benchmarks.heads import sent
from benchmarks.rounds import Runner, data
from benchmarks.timing import ratio
from fedsift.data import FederatedData
from fedsift.experiment.config import Config, read_by
from fedsift.experiment.setup import from_data
from fedsift.problem.networks import build_model

METHODS = ("first-order", "clean-step")


def default(federated: FederatedData, method: str, model: str) -> Runner:
    """Make a method ready at the defaults of a round."""
    shape = tuple(federated.clients[0].inputs.shape[1:])
    config = Config.of(method=method, **read_by(method, {"inner_lr": 0.1, "head_start": 0}))
    setup = from_data(config, federated, build_model(model, shape, 10, seed=0))
    return Runner(setup, setup.initial_state())


def measure() -> dict[str, float]:
    """Compare a round with FedAvg's."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    small, large = data(samples=100, side=8), data()
    makes = {
        "digits": (lambda m: default(small, m, "digits_cnn"), 25),
        "paper": (lambda m: rounds.runner(large, m), 3),
        "mnist": (lambda m: default(large, m, "paper_cnn"), 3),
    }
    found = {}
    try:
        for name, (make, repeats) in makes.items():
            fedavg = make("fedavg")
            for method in METHODS:
                run, key = make(method), method.replace("-", "_")
                found[f"{key}_round_over_fedavg_round_{name}"] = ratio(
                    run, fedavg, repeats, warm_up=2
                )
                if name == "digits":
                    (mine, own), (other, its) = sent(run), sent(fedavg)
                    found[f"{key}_bytes_over_fedavg_bytes"] = mine / other
                    found[f"{key}_exchanges_over_fedavg_exchanges"] = own / its
    finally:
        torch.set_num_threads(threads)
    return found
