"""The runs behind the paper's Figures 1 to 3 (Section 5), at two scales.

| figure | shows | datasets | methods | rates |
|---|---|---|---|---|
| fig1 | test accuracy | MNIST, FEMNIST, CIFAR-10 | baselines, the paper's, controls, ours | 20 |
| fig2 | F1 of the wrong labels | MNIST | the paper's three | 1, 10, 100, 1000 |
| fig3 | F1 of the wrong labels | FEMNIST | the paper's three | 1, 10, 100, 1000 |

``paper`` has the paper's sizes: 10 clients with 500 samples each, T = 5, η = 0.1, L2 10⁻³; how long
a run is, FedAvg decides (``length.py``). Its inner step and batch are ours, because 0.01 with
batches of 256 learns too slowly by plain SGD; the preset ``paper-steps`` gives the literal values.
Step sizes are pinned, not found by the run. ``quick`` is small enough for minutes on two cores.

*Terms* say whether the methods have a head start on the clean set: none has (``as-paper``), or all
have the same (``head-start``). The paper's three methods and ``no-hessian``, their control, move
the weights as the paper does, by a constant step along the hypergradient only; ``single-loop`` and
``posterior`` are ours and take the project's defaults for all but the head start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

from fedsift.algorithms.registry import METHODS
from fedsift.data import DATASETS, SPLITS, available
from fedsift.errors import ConfigError
from fedsift.experiment.config import Config, from_mapping, method_keys, read_by, unread
from fedsift.experiment.length import SHORTEST
from fedsift.experiment.presets import PAPER_PLAIN, preset_keys
from fedsift.keys import hint

RATE = 20.0
RATES = (1.0, 10.0, 100.0, 1000.0)
AS_PAPER, HEAD_START = "as-paper", "head-start"
TERMS: dict[str, int] = {AS_PAPER: 0, HEAD_START: 500}  # head_start of all that read it
OF_THE_PAPER = ("iter-topk", "iter-sketch", "non-iter")
PLAIN = (*OF_THE_PAPER, "no-hessian")
BASELINES = ("fedavg", "oracle", "focus", "preprocess")
OTHERS = ("no-hessian", "single-loop", "posterior", "clean-only", "disagreement")
DECIDED = {  # by the figure or by an option of its own, so that a run's name shows them
    "dataset": "--datasets",
    "split": "--splits",
    "method": "--methods",
    "seed": "--seeds",
    "rounds": "--rounds",
    "rate": "--rates",
    "head_start": "--terms",
    "iterations": "--iterations",
}


@dataclass(frozen=True)
class Figure:
    """What a figure of the paper varies; ``iterations`` I at the scale of the paper."""

    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    rates: tuple[float, ...]
    iterations: tuple[int, ...] = (1,)


@dataclass(frozen=True)
class Scale:
    """Keys for all runs, keys by dataset on top of them, and what else its runs vary."""

    keys: Mapping[str, Any]
    by_dataset: Mapping[str, Mapping[str, Any]]
    seeds: tuple[int, ...]
    terms: tuple[str, ...]
    full_length: bool = False


@dataclass(frozen=True)
class Job:
    """A run to be made and the name of its folder.

    ``length_by`` is the run whose fall decides the number of rounds; empty: the configuration's.
    """

    name: str
    config: Config
    terms: str | None = None
    preset: str = ""
    length_by: str = ""


FIGURES = {
    "fig1": Figure(
        ("mnist", "femnist", "cifar10"), (*BASELINES, *OF_THE_PAPER, *OTHERS), (RATE,), (1, 5)
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
        terms=(AS_PAPER,),
    ),
    "paper": Scale(
        {"rounds": SHORTEST, "eval_every": 5},
        # The paper's 350 writers have some 5,300 images per client in the hub's file.
        {"femnist": {"samples_per_client": 500, "validation_size": 500}},
        seeds=(0, 1),
        terms=tuple(TERMS),
        full_length=True,
    ),
}
DENSE = {"update_rate": 1.0, "model_rate": 1.0}
PINNED = {"inner_lr": 0.1, "solver_lr": 0.1, "damping": 0.5, **DENSE}  # those of all figures so far


@dataclass(frozen=True)
class Choice:
    """What is asked for of a figure's runs; what is empty is as the figure and the scale say."""

    datasets: Sequence[str] = ()
    splits: Sequence[str] = ()
    methods: Sequence[str] = ()
    rates: Sequence[float] = ()
    seeds: Sequence[int] = ()
    terms: Sequence[str] = ()
    iterations: Sequence[int] = ()
    rounds: int | None = None
    preset: str = ""
    settings: Mapping[str, Any] | None = None


class Cell(NamedTuple):
    """A cell of the grid."""

    dataset: str
    split: str
    method: str
    rate: float = RATE
    iterations: int | None = None
    terms: str = AS_PAPER
    seed: int = 0


def data_for(figure: str, scale: str) -> tuple[str, ...]:
    """Return a figure's datasets; at quick scale the embedded digits where they are missing."""
    wanted = FIGURES[figure].datasets
    here = {row.name for row in available() if row.where == "path"}
    return ("digits",) if scale == "quick" and not here.issuperset(wanted) else wanted


def plan(figure: str, scale: str = "quick", choice: Choice = Choice()) -> list[Job]:
    """Return the runs of a figure, those that others wait for included, in no special order."""
    drawn, sizes = FIGURES[figure], SCALES[scale]
    for key in (choice.settings or {}).keys() & DECIDED.keys():
        raise ConfigError(f"--set {key} would mix up the runs; use {DECIDED[key]} instead")
    datasets = _known("--datasets", choice.datasets or data_for(figure, scale), DATASETS)
    splits = _known("--splits", choice.splits or tuple(SPLITS), SPLITS)
    terms = _known("--terms", choice.terms or sizes.terms, TERMS)
    explicit = [name for name, row in METHODS.items() if row.choose is None]
    methods = _known("--methods", choice.methods or drawn.methods, explicit)
    _check_methods(figure, methods)
    if strange := [rate for rate in choice.rates if rate not in drawn.rates]:
        known = ", ".join(f"{rate:g}" for rate in drawn.rates)
        raise ConfigError(f"--rates has {strange[0]:g}; {figure} has only {known}")
    for key in choice.settings or {}:
        if not any(key in method_keys(method) for method in methods):
            raise unread(key, *methods)
    usual = drawn.iterations if sizes.full_length and not choice.preset else ()
    iterations: Sequence[int | None] = choice.iterations or usual or (None,)
    rates, seeds = choice.rates or drawn.rates, choice.seeds or sizes.seeds
    jobs: dict[str, Job] = {}  # by name: one run for all rates where the method has none
    grid = product(datasets, splits, methods, rates, iterations, terms, seeds)
    for cell in (Cell(*values) for values in grid):
        job = _job(sizes, choice, cell)
        if job.length_by and job.length_by not in jobs:
            first = Cell(cell.dataset, cell.split, "fedavg")
            jobs[job.length_by] = _job(sizes, replace(choice, preset=""), first)
        jobs[job.name] = job
    return list(jobs.values())


def _job(sizes: Scale, choice: Choice, cell: Cell) -> Job:
    dataset, split, method, rate, iterations, terms, seed = cell
    keys = {"dataset": dataset, "split": split, "method": method, "seed": seed, "rate": rate}
    keys |= PAPER_PLAIN if method in PLAIN else {}
    keys |= {**PINNED, **sizes.keys, **sizes.by_dataset.get(dataset, {})}
    keys |= preset_keys(choice.preset, method, dataset)
    keys |= {"head_start": TERMS[terms]}
    keys |= {} if iterations is None else {"iterations": iterations}
    keys |= {} if choice.rounds is None else {"rounds": choice.rounds}
    keys |= choice.settings or {}
    config = from_mapping(read_by(method, keys), "command line")
    found = terms if METHODS[method].reads("head_start") else None
    by = ""
    if sizes.full_length and choice.rounds is None:
        by = f"{dataset}-{split}-fedavg-s0"
    return Job(run_name(config, found, choice.preset), config, found, choice.preset, by)


def run_name(config: Config, terms: str | None = None, preset: str = "") -> str:
    """Name a run by what the figures vary."""
    rate, iterations = config.value("rate"), config.value("iterations")
    parts = [config.dataset, config.split, config.method]
    usual = preset_keys(preset, config.method, config.dataset).get("iterations", 1)
    parts += [f"i{iterations}"] if iterations not in (None, usual) else []
    parts += [f"rate{rate:g}"] if rate not in (None, RATE) else []
    parts += [HEAD_START] if terms == HEAD_START else []
    parts += [preset] if preset else []
    return "-".join([*parts, f"s{config.seed}"])


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
