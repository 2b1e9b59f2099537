"""The step that a run finds by itself against a grid of steps that a person would try.

    python -m benchmarks.step_sizes                         all cells that are not there yet
    python -m benchmarks.step_sizes --tasks digits --steps 0.1 auto --seeds 20

| task        | what                                                                          |
|-------------|-------------------------------------------------------------------------------|
| `digits`    | `digits_cnn`, 10 sites, 60 rounds                                             |
| `features`  | CIFAR-10 features, a linear head, 10 sites, 60 rounds                         |
| `table`, `table-mlp` | breast cancer: 3 sites, a quarter of the labels flipped, 60 rounds   |
| `table-x100`, `table-x0.01` | the same, linear, with inputs in other units                   |
| `mnist`, `femnist`   | `paper_cnn`, 2 sites with 300 images each, 300 clean ones, 20 rounds |

A step of the grid leaves the solver of `single-loop` at 0.1 with a damping of 0.5; "auto" is for
all three. Seeds 20 to 29, of development, are the only ones: the rule was chosen by this table.
``loss`` is that of the clean set, on which `oracle` does not train; `single-loop` starts from half
of it. One file for all cells; a cell that is in it is not made again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import fedsift as fs
from benchmarks.breast_cancer import draw, network, provenance
from fedsift.algorithms.registry import METHODS as KNOWN
from fedsift.errors import RunError
from fedsift.experiment.config import Config, read_by
from fedsift.experiment.paper_grid import PINNED
from fedsift.experiment.run import Finished, train
from fedsift.experiment.setup import from_config
from fedsift.files import write_text
from fedsift.keys import AUTO

OUT = Path("results/step_sizes.json")
STEPS = (0.01, 0.03, 0.1, 0.3, 1.0, AUTO)
SMALL = {"clients": 2, "samples_per_client": 300, "validation_size": 300, "test_size": 2000}


@dataclass(frozen=True)
class Task:
    """Data and methods; without ``keys`` the table of scikit-learn, with this network.

    ``unit`` multiplies its inputs.
    """

    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    keys: Mapping[str, Any] = field(default_factory=dict)
    network: str = ""
    unit: float = 1.0


TASKS = {
    "table": Task(("oracle", "single-loop"), (20, 21, 22), network="linear"),
    "table-mlp": Task(("oracle", "single-loop"), (20, 21, 22), network="mlp"),
    "table-x100": Task(("oracle", "single-loop"), (20, 21, 22), network="linear", unit=100.0),
    "table-x0.01": Task(("oracle", "single-loop"), (20, 21, 22), network="linear", unit=0.01),
    "digits": Task(("oracle", "single-loop"), (20, 21, 22), {"dataset": "digits", "rounds": 60}),
    "features": Task(
        ("oracle", "single-loop"), (20, 21, 22), {"dataset": "cifar10-features", "rounds": 60}
    ),
    "mnist": Task(("oracle",), (20,), {"dataset": "mnist", "rounds": 20, **SMALL}),
    "femnist": Task(("oracle",), (20,), {"dataset": "femnist", "rounds": 20, **SMALL}),
}


def measure(task: Task, method: str, step: float | str, seed: int) -> dict[str, Any]:
    """Run one cell; a run that ends early has no figures but its reason."""
    try:
        summary, last = (_on_table if task.network else _on_dataset)(task, method, step, seed)
    except RunError as error:
        return {"failed": str(error)}
    found = {"accuracy": summary["test_accuracy"], "loss": summary["validation_loss"]}
    found |= {"f1": summary["f1"]} if KNOWN[method].learns_weights else {}
    lr = step if isinstance(step, float) else float(last["inner_lr"])
    return found | {"inner_lr": lr, "events": summary["events"]}


def _on_dataset(
    task: Task, method: str, step: float | str, seed: int
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    rounds = task.keys["rounds"]
    keys = {**task.keys, "method": method, "seed": seed, "eval_every": rounds}
    keys |= _steps(method, step)
    finished: Finished = train(from_config(Config.of(**keys).resolve()))
    return finished.summary, finished.rounds[-1]


def _on_table(
    task: Task, method: str, step: float | str, seed: int
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    case, model, unit = draw(seed), network(task.network, seed), np.float32(task.unit)
    sites = [(inputs * unit, labels) for inputs, labels in case.sites]
    clean, test = ((inputs * unit, labels) for inputs, labels in (case.clean, case.test))
    federation = fs.simulate(model, sites, clean, test=test, true_labels=case.truth)
    steps = _steps(method, step)
    result = fs.fit(federation, method, rounds=60, seed=seed, progress=False, **steps)
    return result.summary, dict(result.history.iloc[-1])


def _steps(method: str, step: float | str) -> dict[str, Any]:
    """Return a person's choice, or none."""
    return {} if step == AUTO else {**read_by(method, PINNED), "inner_lr": step}


def run(
    tasks: Sequence[str],
    methods: Sequence[str],
    steps: Sequence[float | str],
    seeds: Sequence[int],
    out: Path,
) -> None:
    """Measure all cells that the file lacks, and add them one by one."""
    written = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {"cells": {}}
    written |= provenance("python -m benchmarks.step_sizes")
    for name in tasks:
        task = TASKS[name]
        for method in [m for m in task.methods if m in methods]:
            for seed in seeds or task.seeds:
                for step in steps:
                    key = f"{name} {method} {step} {seed}"
                    if key in written["cells"]:
                        continue
                    cell = measure(task, method, step, seed)
                    written["cells"][key] = cell
                    write_text(out, json.dumps(written, indent=1) + "\n")
                    print(key, cell, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.step_sizes")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--methods", nargs="+", default=["oracle", "single-loop"])
    parser.add_argument("--steps", type=_step, nargs="+", default=list(STEPS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[])
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    run(options.tasks, options.methods, options.steps, options.seeds, options.out)


def _step(text: str) -> float | str:
    return text if text == AUTO else float(text)


if __name__ == "__main__":
    main()
