"""Which runs may be compared, and what to call them.

    Setting   one model on one dataset, split and corrupted in one way
    └── Variant   one method with one configuration
        └── Run       one seed

Runs of a variant differ in their seed only, so their mean has a meaning. Variants of a method are
distinguished by the keys of `config.toml` in which they differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from fedsift.report.palette import COLOURS, Dash, colours, dash
from fedsift.report.runs import Run

SETTING_TABLES = ("data", "model")
NOT_COMPARED = ("method", "seed", "device", "eval_every", "checkpoint_every")
NAMED_KEYS = 3  # beyond this many differences a list of them is not a name


@dataclass(frozen=True, eq=False)
class Variant:
    """One method with one configuration; `detail` is what distinguishes it from the others."""

    method: str
    detail: str
    runs: tuple[Run, ...]
    colour: str
    dash: Dash

    @property
    def name(self) -> str:
        """The method, and in brackets what sets it apart."""
        return f"{self.method} ({self.detail})" if self.detail else self.method

    def values(self, key: str) -> list[float]:
        """Return the numbers that its runs have for `key`."""
        numbers = [run.number(key) for run in self.runs]
        return [number for number in numbers if number is not None]

    def mean(self, key: str) -> float | None:
        """Return the mean over the runs that have a number for `key`."""
        values = self.values(key)
        return fmean(values) if values else None

    def run_name(self, run: Run) -> str:
        """Name one of its runs: by the seed where that is enough, else by the folder."""
        if len(self.runs) == 1:
            return self.name
        same_seed = sum(other.seed == run.seed for other in self.runs) > 1
        return f"{self.name}, {run.folder.name if same_seed else f'seed {run.seed}'}"


@dataclass(frozen=True, eq=False)
class Setting:
    """Runs with the same data and model, which are fair to compare."""

    dataset: str
    detail: str
    variants: tuple[Variant, ...]

    @property
    def name(self) -> str:
        """The dataset, and in brackets what sets it apart."""
        return f"{self.dataset} ({self.detail})" if self.detail else self.dataset

    @property
    def runs(self) -> list[tuple[str, Variant, Run]]:
        """All its runs, each with its name and variant."""
        return [(v.run_name(run), v, run) for v in self.variants for run in v.runs]


def settings(runs: Iterable[Run]) -> list[Setting]:
    """Group runs by data, then by method and configuration."""
    runs = sorted(runs, key=lambda run: (run.dataset, _order(run), _seed(run), run.folder))
    palette = colours({run.method for run in runs})
    found = []
    for dataset in dict.fromkeys(run.dataset for run in runs):
        on_dataset = [run for run in runs if run.dataset == dataset]
        for detail, members in _split_by_keys(on_dataset, SETTING_TABLES):
            found.append(Setting(dataset, detail, _variants(members, palette)))
    return found


def _variants(runs: Sequence[Run], palette: Mapping[str, str]) -> tuple[Variant, ...]:
    variants = []
    for method in dict.fromkeys(run.method for run in runs):
        groups = _split_by_keys([run for run in runs if run.method == method])
        for number, (detail, members) in enumerate(groups):
            style = palette[method], dash(method, number)
            variants.append(Variant(method, detail, tuple(members), *style))
    return tuple(variants)


def _split_by_keys(runs: list[Run], tables: tuple[str, ...] = ()) -> list[tuple[str, list[Run]]]:
    """Split runs by their configuration; name each part by the keys in which the parts differ."""
    flat = [_flatten(run.config, tables) for run in runs]
    keys = dict.fromkeys(key for config in flat for key in config)
    differing = [key for key in keys if len({config.get(key, "unset") for config in flat}) > 1]
    parts: dict[tuple[str, ...], list[Run]] = {}
    for run, config in zip(runs, flat, strict=True):
        parts.setdefault(tuple(config.get(key, "unset") for key in differing), []).append(run)
    if len(differing) > NAMED_KEYS:
        return [(members[0].folder.name, members) for members in parts.values()]
    leaves = [key.rpartition(".")[2].replace("_", " ") for key in differing]
    return [
        (", ".join(f"{leaf} {value}" for leaf, value in zip(leaves, values, strict=True)), members)
        for values, members in parts.items()
    ]


def _flatten(config: Mapping[str, Any], tables: tuple[str, ...]) -> dict[str, str]:
    """Return `{"table.key": "value"}`, without the keys that differ between equal experiments."""
    flat: dict[str, str] = {}
    for key, value in config.items():
        if key in NOT_COMPARED or (tables and key not in tables):
            continue
        if isinstance(value, Mapping):
            flat |= {f"{key}.{inner}": text for inner, text in _flatten(value, ()).items()}
        else:
            flat[key] = str(value)
    return flat


def _seed(run: Run) -> tuple[int, str]:
    return len(run.seed), run.seed  # 2 before 10


def _order(run: Run) -> tuple[int, str]:
    """Place unknown methods last but for the oracle."""
    known = list(COLOURS)
    place = 2 * known.index(run.method) if run.method in known else 2 * len(known) - 3
    return place, run.method
