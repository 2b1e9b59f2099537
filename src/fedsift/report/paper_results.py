"""The results of ``fedsift reproduce``: files of a folder -> curves and tables.

A file has a run's summary, its ``terms`` (None where the method reads no head start) and
``preset``, its ``config`` and its ``series`` {round, test_accuracy, validation_loss, weights_f1,
residual}. Runs that differ in their seed only are one curve; any other difference between them is
an error.

*Stopped* is a method at the evaluated round of lowest loss on the clean set: the model that early
stopping would keep, which needs nothing that the server has not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd

from fedsift.algorithms.registry import METHODS as KNOWN
from fedsift.errors import InputError

DATASETS = {"mnist": "MNIST", "femnist": "FEMNIST", "cifar10": "CIFAR-10", "digits": "digits"}
SPLITS = {"iid": "i.i.d.", "non-iid": "non-i.i.d."}
METHODS = (
    *("fedavg", "clean-only", "focus", "preprocess", "disagreement"),
    *("glc", "em", "gce", "elr", "fedelc", "fedcorr"),
    *("iter-topk", "iter-sketch", "non-iter", "single-loop", "out-of-fold"),
    *("posterior", "no-hessian", "first-order", "clean-step", "simfbo", "fedbioacc"),
    *("cg", "neumann", "nystrom", "oracle"),
)
COMPRESSING = tuple(name for name, row in KNOWN.items() if row.reads("rate"))
MEGABYTE = 1e6

Key = tuple[str, str, str, int, float | None, str | None, str]


@dataclass(frozen=True, eq=False)
class Curve:
    """Runs of one method on one federation at one rate (None: it has none), a run per seed.

    ``iterations`` is the solver's I, 1 where it has none; ``terms`` is None where the method reads
    no head start, so that it stands beside the others in both.
    """

    dataset: str
    split: str
    method: str
    iterations: int
    rate: float | None
    terms: str | None
    preset: str
    runs: tuple[Mapping[str, Any], ...]

    @property
    def label(self) -> str:
        """The method, with what of its variants is not usual."""
        parts = [self.method]
        parts += [f"I = {self.iterations}"] if self.iterations > 1 and not self.preset else []
        return ", ".join([*parts, *([self.preset] if self.preset else [])])

    def spread(self, measure: str) -> pd.DataFrame:
        """Return mean, min and max over the seeds at the rounds that all of them evaluated."""
        columns = [
            pd.Series(run["series"][measure], index=run["series"]["round"], dtype="float64")
            for run in self.runs
        ]
        table = pd.concat(columns, axis=1).dropna()
        return pd.DataFrame(
            {"mean": table.mean(axis=1), "min": table.min(axis=1), "max": table.max(axis=1)}
        )

    def values(self, key: str) -> list[float]:
        """Return a number of the summaries, where it is known."""
        return [float(run[key]) for run in self.runs if run[key] is not None]

    def stopped(self) -> list[tuple[int, float]]:
        """Return round and test accuracy at the lowest loss on the clean set, of every run."""
        found = []
        for run in self.runs:
            series = run["series"]
            losses = series.get("validation_loss")
            if losses:
                best = losses.index(min(loss for loss in losses if loss is not None))
                found.append((series["round"][best], series["test_accuracy"][best]))
        return found

    def residuals(self) -> list[float]:
        """Return ‖Hv − ∇_y F‖ / ‖∇_y F‖ of the last round's v, where it was measured independently.

        Runs before that was so measured it in the numbers that steer v: they are left out.
        """
        found = [run.get("hypergradient") or {} for run in self.runs]
        return [
            float(one["residual"])
            for one in found
            if one.get("residual_by") and one["residual"] is not None
        ]


def load_curves(folder: Path) -> list[Curve]:
    """Read a folder of results, in the order of the paper."""
    groups: dict[Key, list[Mapping[str, Any]]] = {}
    for path in sorted(folder.glob("*.json")):
        run = _read(path)
        if "series" in run:
            groups.setdefault(_key(run), []).append(run)
    for key, runs in groups.items():
        _check_alike(folder, key, runs)
    return [Curve(*key, tuple(groups[key])) for key in sorted(groups, key=_order)]


def _key(run: Mapping[str, Any]) -> Key:
    config = run["config"]
    rate = float(config["rate"]) if config["method"] in COMPRESSING else None
    method, iterations = config["method"], config.get("iterations", 1)
    place = config["dataset"], config["split"]
    return (*place, method, iterations, rate, run["terms"], run["preset"])


def table(curves: Sequence[Curve]) -> tuple[list[str], list[list[str]]]:
    """Return titles and a row per curve: the last round, where it would stop, bytes, exchanges."""
    titles = ["dataset", "split", "terms", "method", "rate", "seeds", "rounds", "accuracy"]
    titles += ["stopped at", "accuracy if stopped", "F1 of weights"]
    titles += ["residual", "MB up", "MB down", "exchanges"]
    rows = []
    for curve in curves:
        rate = "–" if curve.rate is None else f"{curve.rate:g}"
        seeds = ", ".join(str(run["seed"]) for run in curve.runs)
        cells = [curve.dataset, curve.split, curve.terms or "both", f"`{curve.label}`", rate, seeds]
        cells += [over_seeds(curve.values("rounds"), ".0f")]
        cells += [over_seeds(curve.values("test_accuracy"), ".3f")]
        stopped = curve.stopped()
        cells += [over_seeds([k for k, _ in stopped], ".0f")]
        cells += [over_seeds([accuracy for _, accuracy in stopped], ".3f")]
        cells += [over_seeds(curve.values("weights_f1"), ".3f")]
        cells += [over_seeds(curve.residuals(), ".2f")]
        cells += [_mean(curve.values(key), MEGABYTE) for key in ("bytes_up", "bytes_down")]
        rows.append([*cells, over_seeds(curve.values("exchanges"), ".0f")])
    return titles, rows


def pivot(
    curves: Sequence[Curve], cell: Callable[[Curve], str]
) -> tuple[list[str], list[list[str]]]:
    """Return a row per method and a column per dataset and split; a dash: not run."""
    panels = list(dict.fromkeys((c.dataset, c.split) for c in curves))
    cells = {(_row(c), (c.dataset, c.split)): cell(c) for c in curves}
    names = dict.fromkeys(_row(c) for c in curves)
    rows = [[name, *(cells.get((name, panel), "–") for panel in panels)] for name in names]
    return ["method", *(f"{DATASETS[d]}, {SPLITS[s]}" for d, s in panels)], rows


def _row(curve: Curve) -> str:
    return f"`{curve.label}`" + (", head start" if curve.terms == "head-start" else "")


def markdown(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _read(path: Path) -> dict[str, Any]:
    try:
        run = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise InputError(f"{path} is not valid JSON; remove it and make the run again") from None
    if not isinstance(run, dict):
        raise InputError(f"{path} is not a JSON object; remove it")
    return run


def _check_alike(folder: Path, key: Key, runs: Sequence[Mapping[str, Any]]) -> None:
    first = runs[0]["config"]
    for run in runs[1:]:
        config = run["config"]
        for name in sorted((first.keys() | config.keys()) - {"seed"}):
            if first.get(name) != config.get(name):
                raise InputError(
                    f"{folder} has runs of {'-'.join(key[:3])} that differ in {name}, so they have "
                    "no mean; keep runs of one configuration in a folder"
                )


def _order(key: Key) -> tuple[int | float | str, ...]:
    dataset, split, method, iterations, rate, terms, preset = key
    place = _place(DATASETS, dataset), _place(SPLITS, split), terms == "head-start"
    return (*place, preset, _place(METHODS, method), iterations, rate or 0.0)


def _place(known: Mapping[str, str] | Sequence[str], name: str) -> int:
    return list(known).index(name) if name in known else len(known)


def over_seeds(values: Sequence[float], form: str) -> str:
    """Return the mean, and in brackets the lowest and highest value, if they differ as printed."""
    if not values:
        return "–"
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{fmean(values):{form}} ({low} to {high})"


def _mean(values: Sequence[float], unit: float) -> str:
    return f"{fmean(values) / unit:.1f}" if values else "–"
