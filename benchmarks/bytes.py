"""Total bytes, up and down, against accuracy and F1: every method beside dense FedAvg.

    python -m benchmarks.bytes                        all cells that are not there yet
    python -m benchmarks.bytes --datasets digits --methods posterior --seeds 20 --out DIR
    python -m benchmarks.bytes --table                what is there, as a table

A level is ``dense`` (the default), ``suggested`` (rate 12 both ways), or the share of dense
FedAvg's bytes that a cell aims at; its rates follow from that (``docs/benchmarks.md``). Seeds 20 to
29 are for development, seeds 0 to 2 are reported. All other keys are at their defaults; MNIST is
the paper's: 10 sites x 500 samples, 500 clean ones, its network, for 60 rounds.

The default method is posterior on networks and out-of-fold on features, which trains four heads
where FedAvg trains one; its noise model alone takes 0.07 of FedAvg's bytes. One JSON file per cell.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch

from benchmarks.breast_cancer import provenance
from fedsift.experiment.config import Config
from fedsift.experiment.run import train
from fedsift.experiment.setup import from_config
from fedsift.files import write_text

DENSE, SUGGESTED = "dense", "suggested"
SEEDS = (0, 1, 2)
OUT = Path("results/bytes")
METHODS = ("posterior", "out-of-fold", "single-loop", "fedavg")
ON_NETWORKS = ("posterior", "single-loop", "fedavg")
DATASETS = {  # the methods on each
    "digits": ON_NETWORKS,
    "cifar10-features": ("out-of-fold", "fedavg"),
    "mnist": ("posterior", "fedavg"),
}
EVALUATED = {"mnist": {"rounds": 60, "eval_every": 60}}  # the test set is a third of a round


def rates(both: float, **more: float) -> dict[str, float]:
    """Return the keys of a cell whose updates and models have one rate."""
    return {"update_rate": both, "model_rate": both, **more}


BOTH = {DENSE: rates(1), SUGGESTED: rates(12)}
OF_MODEL = {
    **BOTH,
    "0.1": rates(2.2),
    "0.05": rates(5.1),
    "0.02": rates(19),
}  # update up, model down
OF_SINGLE_LOOP = {  # a product up and v down besides
    **BOTH,
    "0.1": rates(3.8),
    "0.02": rates(48, rate=100, value_bits=8),
}
OF_HEADS = {**BOTH, "0.5": rates(2.4), "0.2": rates(9), "0.1": rates(150)}
LEVELS = tuple(dict.fromkeys((*OF_MODEL, *OF_SINGLE_LOOP, *OF_HEADS)))
KEPT = ("f1", "auc", "weights_auc", "bytes_up", "bytes_down", "exchanges", "seconds")


class Cell(NamedTuple):
    """One run: its level is ``dense`` or a share of dense FedAvg's bytes."""

    dataset: str
    method: str
    level: str
    seed: int

    @property
    def path(self) -> str:
        """Return the name of its file."""
        return f"{self.dataset}-{self.method}-{self.level}-{self.seed}.json"

    @property
    def keys(self) -> dict[str, Any]:
        """Return the keys that reach the level."""
        return {**EVALUATED.get(self.dataset, {}), **levels(self.method)[self.level]}


def levels(method: str) -> dict[str, dict[str, float]]:
    """Return the keys of every level."""
    return {"single-loop": OF_SINGLE_LOOP, "out-of-fold": OF_HEADS}.get(method, OF_MODEL)


def cells(
    datasets: Sequence[str], methods: Sequence[str], seeds: Sequence[int], wanted: Sequence[str]
) -> Iterator[Cell]:
    """Return all cells, those of a dataset and a seed together."""
    for dataset in datasets:
        for seed in seeds:
            for method in (m for m in DATASETS[dataset] if m in methods):
                for level in (name for name in levels(method) if name in wanted):
                    yield Cell(dataset, method, level, seed)


def measure(cell: Cell) -> dict[str, Any]:
    """Run a cell."""
    keys = cell.keys
    config = Config.of(dataset=cell.dataset, method=cell.method, seed=cell.seed, **keys)
    summary = train(from_config(config.resolve())).summary
    found = {"rounds": summary["rounds"], "keys": keys}
    found |= {"accuracy": summary["test_accuracy"], "parameters": summary["parameters"]}
    return found | {key: summary.get(key) for key in KEPT}


def run(wanted: Iterator[Cell], out: Path) -> None:
    """Measure all cells that have no file yet."""
    for cell in wanted:
        path = out / cell.path
        if path.exists():
            continue
        found = {**cell._asdict(), **measure(cell)}
        made = provenance(f"python -m benchmarks.bytes --datasets {cell.dataset}")
        write_text(path, json.dumps({**found, **made}, indent=1) + "\n")
        print(cell.path, found["accuracy"], found["f1"], file=sys.stderr, flush=True)


class Row(NamedTuple):
    """The mean over seeds of a method at a level, beside dense FedAvg and the dense method."""

    dataset: str
    method: str
    level: str
    share: float
    up: float
    down: float
    accuracy: float
    f1: float | None
    accuracy_change: float
    f1_change: float | None
    seeds: int


def rows(out: Path = OUT) -> list[Row]:
    """Return what was measured; a change is over the seeds that both have."""
    read = (json.loads(path.read_text()) for path in sorted(out.glob("*.json")))
    known = {Cell(*(f[name] for name in Cell._fields)): f for f in read}
    found = []
    for dataset, methods in DATASETS.items():
        dense = [f for c, f in known.items() if c[:3] == (dataset, "fedavg", DENSE)]
        for method in methods:
            for level in levels(method):
                pairs = [
                    (f, known[cell._replace(level=DENSE)])
                    for cell, f in known.items()
                    if cell[:3] == (dataset, method, level) and cell._replace(level=DENSE) in known
                ]
                if pairs and dense:
                    found.append(_row((dataset, method, level), pairs, dense[0]))
    return found


def _row(
    named: tuple[str, str, str], pairs: list[tuple[dict[str, Any], ...]], dense: dict[str, Any]
) -> Row:
    total = dense["bytes_up"] + dense["bytes_down"]
    up, down = (fmean(f[key] for f, _ in pairs) / total for key in ("bytes_up", "bytes_down"))
    judged = pairs[0][0]["f1"] is not None
    f1 = fmean(f["f1"] for f, _ in pairs) if judged else None
    f1_change = fmean(f["f1"] - g["f1"] for f, g in pairs) if judged else None
    accuracy = fmean(f["accuracy"] for f, _ in pairs)
    change = fmean(f["accuracy"] - g["accuracy"] for f, g in pairs)
    return Row(*named, up + down, up, down, accuracy, f1, change, f1_change, len(pairs))


def table(found: Sequence[Row]) -> str:
    """Return rows as a Markdown table."""
    lines = [
        "| data | method | level | bytes / dense FedAvg | up | down | accuracy | F1 | change of "
        "accuracy, points | change of F1 | seeds |",
        "|" + "---|" * 11,
    ]
    for row in found:
        f1, f1_change = "", ""
        if row.f1 is not None and row.f1_change is not None:
            f1, f1_change = f"{row.f1:.3f}", f"{row.f1_change:+.4f}"
        lines.append(
            f"| {row.dataset} | {row.method} | {row.level} | {row.share:.3f} | {row.up:.3f} | "
            f"{row.down:.3f} | {row.accuracy:.3f} | {f1} | {100 * row.accuracy_change:+.2f} | "
            f"{f1_change} | {row.seeds} |"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bytes")
    parser.add_argument("--datasets", nargs="+", choices=list(DATASETS), default=list(DATASETS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--levels", nargs="+", choices=LEVELS, default=list(LEVELS))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--table", action="store_true", help="print what is there")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if not options.table:
        run(cells(options.datasets, options.methods, options.seeds, options.levels), options.out)
    print(table(rows(options.out)))


if __name__ == "__main__":
    main()
