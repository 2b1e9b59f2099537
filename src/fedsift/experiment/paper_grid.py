"""The runs behind the paper's Figures 1 to 3 (Section 5), at two scales.

| figure | shows | datasets | methods | rates |
|---|---|---|---|---|
| fig1 | test accuracy | MNIST, CIFAR-10, FEMNIST | baselines, the paper's three, single-loop | 20 |
| fig2 | F1 of the wrong labels | MNIST | the paper's three | 1, 10, 100, 1000 |
| fig3 | F1 of the wrong labels | FEMNIST | the paper's three | 1, 10, 100, 1000 |

``paper`` has the paper's sizes: 10 clients with 500 samples each, T = 5, η = 0.1, L2 10⁻³; fewer
rounds than the paper's plots for CIFAR-10 and FEMNIST. Its inner step and batch are ours, because
0.01 with batches of 256 learns too slowly by plain SGD; ``paper_steps`` gives the literal values.
Step sizes are pinned, not found by the run. ``quick`` is small enough for minutes on two cores.

The paper's three methods move the weights as the paper does, by a constant step along the
hypergradient only; ``single-loop`` is ours and takes the project's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from fedsift.algorithms.registry import METHODS
from fedsift.data import DATASETS, SPLITS, available
from fedsift.errors import ConfigError
from fedsift.experiment.config import Config, from_mapping, method_keys, read_by, unread
from fedsift.keys import hint

RATE = 20.0
RATES = (1.0, 10.0, 100.0, 1000.0)
OF_THE_PAPER = ("iter-topk", "iter-sketch", "non-iter")
PAPER_PLAIN: dict[str, Any] = {
    "outer_decay": 0,
    "self_paced": 0.0,
    "head_start": 0,
    "bootstrap": 0.0,
}
PAPER_PLAIN |= {"weight_mean": 0.0, "feedback": "listing"}
BASELINES = ("fedavg", "oracle", "focus", "preprocess")
DECIDED = {  # by the figure or by an option of its own, so that a run's name shows them
    "dataset": "--datasets",
    "split": "--splits",
    "method": "--methods",
    "seed": "--seeds",
    "rounds": "--rounds",
    "rate": "--rates",
}


@dataclass(frozen=True)
class Figure:
    """What a figure of the paper varies."""

    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    rates: tuple[float, ...]


@dataclass(frozen=True)
class Scale:
    """Keys for all runs, keys by dataset on top of them, and the seeds."""

    keys: Mapping[str, Any]
    by_dataset: Mapping[str, Mapping[str, Any]]
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Job:
    """A run to be made and the name of its folder."""

    name: str
    config: Config


FIGURES = {
    "fig1": Figure(
        ("mnist", "cifar10", "femnist"), (*BASELINES, *OF_THE_PAPER, "single-loop"), (RATE,)
    ),
    "fig2": Figure(("mnist",), OF_THE_PAPER, RATES),
    "fig3": Figure(("femnist",), OF_THE_PAPER, RATES),
}

_SMALL = {"clients": 4, "samples_per_client": 100, "validation_size": 100, "test_size": 500}
_SMALL |= {"batch_size": 32, "curvature_batch": 32, "rounds": 8, "eval_every": 2}
SCALES = {
    "quick": Scale(
        {"rounds": 40, "eval_every": 5},
        dict.fromkeys(("mnist", "cifar10", "femnist"), _SMALL),
        seeds=(0,),
    ),
    "paper": Scale(
        {"rounds": 60, "eval_every": 5},
        {
            "cifar10": {"rounds": 40},
            # The paper's 350 writers have some 5,300 images per client in the hub's file.
            "femnist": {"rounds": 40, "samples_per_client": 500, "validation_size": 500},
        },
        seeds=(0, 1),
    ),
}
DENSE = {"update_rate": 1.0, "model_rate": 1.0}
PINNED = {"inner_lr": 0.1, "solver_lr": 0.1, "damping": 0.5, **DENSE}  # those of all figures so far
PAPER_STEPS = {  # Section 5: "the learning rate as 0.01", minibatches of 256, and 32 for CIFAR-10
    name: {"inner_lr": 0.01, "batch_size": 32 if name == "cifar10" else 256} for name in DATASETS
}


def data_for(figure: str, scale: str) -> tuple[str, ...]:
    """Return a figure's datasets; at quick scale the embedded digits where they are missing."""
    wanted = FIGURES[figure].datasets
    here = {row.name for row in available() if row.where == "path"}
    return ("digits",) if scale == "quick" and not here.issuperset(wanted) else wanted


def plan(
    figure: str,
    scale: str = "quick",
    *,
    datasets: Sequence[str] = (),
    splits: Sequence[str] = (),
    methods: Sequence[str] = (),
    rates: Sequence[float] = (),
    seeds: Sequence[int] = (),
    rounds: int | None = None,
    paper_steps: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> list[Job]:
    """Return the runs of a figure in order; what is not given is as the figure and scale say."""
    drawn, sizes = FIGURES[figure], SCALES[scale]
    given = dict(settings or {})
    for key in given.keys() & DECIDED.keys():
        raise ConfigError(f"--set {key} would mix up the runs; use {DECIDED[key]} instead")
    datasets = _known("--datasets", datasets or data_for(figure, scale), DATASETS)
    splits = _known("--splits", splits or tuple(SPLITS), SPLITS)
    explicit = [name for name, row in METHODS.items() if row.choose is None]
    methods = _known("--methods", methods or drawn.methods, explicit)
    _check_methods(figure, methods)
    if strange := [rate for rate in rates if rate not in drawn.rates]:
        known = ", ".join(f"{rate:g}" for rate in drawn.rates)
        raise ConfigError(f"--rates has {strange[0]:g}; {figure} has only {known}")
    for key in given:
        if not any(key in method_keys(method) for method in methods):
            raise unread(key, *methods)
    grid = product(datasets, splits, methods, rates or drawn.rates, seeds or sizes.seeds)
    jobs: dict[str, Job] = {}  # by name: one run for all rates where the method has none
    for dataset, split, method, rate, seed in grid:
        keys = {"dataset": dataset, "split": split, "method": method, "seed": seed, "rate": rate}
        keys |= PAPER_PLAIN if method in OF_THE_PAPER else {}
        keys |= {**PINNED, **sizes.keys, **sizes.by_dataset.get(dataset, {})}
        keys |= PAPER_STEPS[dataset] if paper_steps else {}
        keys |= {} if rounds is None else {"rounds": rounds}
        config = from_mapping(read_by(method, keys | given), "command line")
        jobs[run_name(config)] = Job(run_name(config), config)
    return list(jobs.values())


def run_name(config: Config) -> str:
    """Name a run by what the figures vary."""
    rate = config.value("rate")
    shown = "" if rate in (None, RATE) else f"-rate{rate:g}"
    return f"{config.dataset}-{config.split}-{config.method}{shown}-s{config.seed}"


def _check_methods(figure: str, methods: Sequence[str]) -> None:
    """Refuse methods that have nothing to show in a figure."""
    for method in methods if figure != "fig1" else ():
        if not METHODS[method].learns_weights:
            raise ConfigError(f"{figure} shows F1, but {method} learns no weights; leave it out")
        if not METHODS[method].reads("rate"):
            raise ConfigError(f"{figure} varies the rate, but {method} has none; leave it out")


def _known(
    option: str, given: Sequence[str], known: Sequence[str] | Mapping[str, Any]
) -> list[str]:
    for name in given:
        if name not in known:
            choose = f"choose from {', '.join(known)}{hint(name, known)}"
            raise ConfigError(f"{option} has '{name}'; {choose}")
    return list(dict.fromkeys(given))
