"""Where a gradient and a repeated product of the paper's CNN spend their time.

python -m benchmarks.profile_products
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.profiler import profile

from benchmarks.curvature import SAMPLES
from fedsift.problem import FlatModel, LabelledBatch, Reweighting, inner_gradient
from fedsift.problem.curvature import CURVATURES
from fedsift.problem.networks import build_model
from fedsift.randomness import generator

ROWS = 6


def show(name: str, work: Callable[[], object]) -> None:
    """Print the operators that take most of the time: how often, and which share of it."""
    for _ in range(2):
        work()
    with profile() as seen:
        work()
    events = seen.key_averages()
    total = sum(event.self_cpu_time_total for event in events)
    print(f"{name}: {total / 1e3:.0f} ms")
    for event in sorted(events, key=lambda e: -e.self_cpu_time_total)[:ROWS]:
        print(f"  {event.key:40}{event.count:4}{event.self_cpu_time_total / total:8.0%}")


def main() -> None:
    """Profile the gradient and both matrices."""
    source = generator(0, "benchmark")
    problem = Reweighting(FlatModel(build_model("paper_cnn", (1, 28, 28), 10, seed=0)))
    inputs = torch.randn(SAMPLES, 1, 28, 28, generator=source)
    batch = LabelledBatch.of(inputs, torch.randint(10, (SAMPLES,), generator=source))
    x, y = torch.ones(SAMPLES), problem.model.initial()
    v = torch.randn(len(y), generator=source)
    show("gradient", lambda: inner_gradient(problem, x, y, batch))
    for name, makes in CURVATURES.items():
        operator = makes.repeated(problem, x, y, batch, 0.5)
        show(f"{name}, repeated", lambda operator=operator: operator.product(v))  # type: ignore[misc]


if __name__ == "__main__":
    main()
