"""A round at the defaults that a user gets, in FedAvg's on the same data: processor time, one core.

| case        | sites x samples | clean | model                                                  |
|---------------|-----------------|-------|--------------------------------------------------------|
| `cnn_256`   | 4 x 500       | 200 | the paper's CNN, 28 x 28, batches of 256               |
| `cnn_64`    | 4 x 500       | 200 | the same, batches of 64, the default                   |
| `head`      | 10 x 500      | 500 | linear on 1,280 features                               |
| `mlp`       | 10 x 500      | 500 | one hidden layer of 64 on 784 numbers                  |
| `transformer` | 10 x 500      | 500 | two layers, width 64, 32 words of 1,000                |
| `samples`   | 2 x N         | 500 | `mlp` and `head`, N from 10² to 10⁵                    |
| `classes`   | 4 x 500       | 500 | `mlp` with C classes                                   |
| `clients`   | M x 50        | 500 | `mlp` on 30 numbers, 10 of M sites in a round          |
| `plain_loop` | 2 x 500      |     | FedAvg over a loop written by hand, as in ``rounds``   |

The data are random: times do not depend on them. The trial of step sizes, the head start and heads
on the clean set come before the first round and are left out. The default method is `posterior`,
for a head `out-of-fold`.

python -m benchmarks.defaults cnn_64 head      some cases
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.rounds import Runner, data, plain_loop
from benchmarks.rounds import runner as paper_runner
from benchmarks.timing import Spread, ratios
from fedsift.data import ClientData, FederatedData
from fedsift.experiment.config import Config, read_by
from fedsift.experiment.setup import from_data
from fedsift.files import write_text
from fedsift.problem.networks import Shape, build_model, seeded_model
from fedsift.randomness import generator

OUT = Path(__file__).parents[1] / "results" / "bench.json"
BEFORE_ROUND_1 = {"inner_lr": 0.05, "head_start": 0, "clean_steps": 50}
WORDS, LENGTH, WIDTH = 1000, 32, 64


class Transformer(nn.Module):
    """Two layers of attention over words, their mean, and a linear layer."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, words: Tensor) -> Tensor:
        """Return logits."""
        logits: Tensor = self.head(self.body(self.words(words) + self.places).mean(dim=1))
        return logits


@dataclass(frozen=True)
class Case:
    """What a round is done on."""

    model: str
    shape: Shape
    methods: tuple[str, ...] = ("single-loop", "posterior")
    clients: int = 10
    samples: int = 500
    clean: int = 500
    classes: int = 10
    repeats: int = 9
    keys: dict[str, Any] = field(default_factory=dict)


HEAD = ("single-loop", "out-of-fold")
CNN = {"clients": 2, "clean": 100, "repeats": 3}


def cases() -> Iterator[tuple[str, Case]]:
    """Name the cases."""
    yield "cnn_256", Case("paper_cnn", (1, 28, 28), **CNN, keys={"batch_size": 256})  # type: ignore[arg-type]
    yield "cnn_64", Case("paper_cnn", (1, 28, 28), **CNN)  # type: ignore[arg-type]
    yield "head", Case("linear", (1280,), HEAD)
    yield "mlp", Case("mlp", (784,))
    yield "transformer", Case("transformer", (LENGTH,), repeats=5)
    for n in (100, 1000, 10_000, 100_000):
        yield f"mlp_samples_{n}", Case("mlp", (784,), clients=2, samples=n)
        yield f"head_samples_{n}", Case("linear", (1280,), HEAD, clients=2, samples=n)
    for c in (10, 100, 1000):
        yield f"mlp_classes_{c}", Case("mlp", (784,), clients=4, classes=c, repeats=5)
    for m in (10, 1000, 10_000):
        yield (
            f"mlp_clients_{m}",
            Case("mlp", (30,), clients=m, samples=50, keys={"cohort": 10} if m > 10 else {}),
        )


def random_data(case: Case) -> FederatedData:
    """Return sites with random inputs around a mean of their class, or random words."""
    source = generator(0, "benchmark")
    words = case.model == "transformer"
    means = torch.rand(case.classes, *case.shape, generator=source)

    def draw(count: int) -> tuple[Tensor, Tensor]:
        labels = torch.randint(case.classes, (count,), generator=source)
        if words:
            return torch.randint(WORDS, (count, *case.shape), generator=source), labels
        inputs = torch.rand(count, *case.shape, generator=source)
        for start in range(0, count, 4096):
            inputs[start : start + 4096] += means[labels[start : start + 4096]]
        return inputs, labels

    rows = torch.arange(case.samples)
    members = [ClientData(*draw(case.samples), None, rows) for _ in range(case.clients)]
    names = tuple(str(number) for number in range(case.classes))
    return FederatedData("random", members, draw(case.clean), draw(100), names)


def runner(case: Case, data: FederatedData, method: str) -> Runner:
    """Make a method ready."""
    if case.model == "transformer":
        module = seeded_model(lambda _, c: Transformer(c), case.shape, case.classes, 0)
    else:
        module = build_model(case.model, case.shape, case.classes, seed=0)
    keys = {**BEFORE_ROUND_1, **case.keys}
    cohort = {"cohort": keys.pop("cohort")} if "cohort" in keys else {}
    setup = from_data(Config.of(method=method, **cohort, **read_by(method, keys)), data, module)
    return Runner(setup, setup.initial_state())


def compared(case: Case) -> dict[str, Spread]:
    """Return each method's round over FedAvg's."""
    data = random_data(case)
    works: dict[str, Callable[[], object]] = {m: runner(case, data, m) for m in case.methods}
    return ratios(works, runner(case, data, "fedavg"), case.repeats, 1 if case.repeats < 5 else 2)


def over_plain_loop() -> dict[str, float]:
    """Return FedAvg's round over that of a plain loop, both channels-last, on two sites."""
    sites = data(clients=2)
    plain = plain_loop(sites, torch.channels_last)
    spread = ratios({"fedavg": paper_runner(sites, "fedavg")}, plain, 5, 1)["fedavg"]
    print(f"  plain_loop {spread}", flush=True)
    name = "fedavg_over_plain_loop"
    return {name: spread.median, f"{name}_least": spread.least, f"{name}_most": spread.most}


def measure(names: tuple[str, ...] = ()) -> dict[str, float]:
    """Measure all cases, or those of these names."""
    threads, found = torch.get_num_threads(), dict[str, float]()
    torch.set_num_threads(1)
    try:
        for name, case in cases():
            if names and name not in names:
                continue
            for method, spread in compared(case).items():
                key = f"round_{name}_{method.replace('-', '_')}"
                found |= {key: spread.median}
                found |= {f"{key}_least": spread.least, f"{key}_most": spread.most}
                shown = f"{spread.median:.2f} ({spread.least:.2f} to {spread.most:.2f})"
                print(f"  {name:24} {method:14} {shown}", flush=True)
        if not names or "plain_loop" in names:
            found |= over_plain_loop()
    finally:
        torch.set_num_threads(threads)
    return found


def main(names: list[str]) -> None:
    """Measure some cases and add them to results/bench.json."""
    for name in names or [*(name for name, _ in cases()), "plain_loop"]:
        measured = measure((name,))
        known = json.loads(OUT.read_text(encoding="utf-8"))
        known |= {key: round(value, 4) for key, value in measured.items()}
        write_text(OUT, json.dumps(dict(sorted(known.items())), indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
