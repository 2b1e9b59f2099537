"""Draw the pictures of the documents.

python -m benchmarks scaling && python docs/dev/make_pictures.py              scaling.png
python -m benchmarks.clean_samples --out results/clean_samples.json       clean_samples.png
python -m benchmarks robustness && python docs/dev/make_pictures.py           liars.png
python -m benchmarks privacy && python docs/dev/make_pictures.py              privacy.png
python -m benchmarks estimators && python docs/dev/make_pictures.py       estimators.png
python -m benchmarks.bytes && python docs/dev/make_pictures.py                bytes.png
fedsift demo --out runs/demo && python docs/dev/make_pictures.py runs/demo    demo.png too
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.bytes import rows
from trust_tables import LIES, RULES, SAID, runs

from fedsift.report import load_run

COLOURS = {
    "fedavg": "#767676",
    "clean-only": "#E69F00",
    "auto": "#0072B2",
    "oracle": "#000000",
}
CLEAN_COLOURS = {"posterior": "#0072B2", "single-loop": "#009E73", "clean-only": "#D55E00"}
IMAGES = Path(__file__).parents[1] / "images"
SCALING = Path(__file__).parents[2] / "results" / "scaling.json"
CLEAN_SAMPLES = Path(__file__).parents[2] / "results" / "clean_samples.json"
PRIVACY = Path(__file__).parents[2] / "results" / "privacy" / "runs.json"
SITES_COLOURS = {10: "#D55E00", 100: "#0072B2"}
BYTES = Path(__file__).parents[2] / "results" / "bytes"
ESTIMATORS = Path(__file__).parents[2] / "results" / "estimators"
SHOWN = {  # estimator: its colour; compressed forms are dashed or dotted
    "cg": "#000000",
    "neumann": "#767676",
    "nystrom": "#CC79A7",
    "non-iter": "#E69F00",
    "iter topk": "#0072B2",
    "iter count-sketch": "#D55E00",
    "exact": "#009E73",
}
FORMS = {"listing": "-", "gradient": "--", "ef21": ":", "topk": "--", "count-sketch": ":"}
COLUMNS = {  # sweep of the benchmark: what n is, the method's colour in reports
    "clients": ("clients (10 per round)", "#0072B2"),
    "cohort": ("clients per round", "#0072B2"),
    "d": ("parameters d", "#0072B2"),
    "iterations": ("iterations I, iter-sketch", "#D55E00"),
    "r1": ("r₁ = r₂ / 2, non-iter", "#CC79A7"),
}


def main(demo: Path, out: Path) -> None:
    """Draw accuracy against rounds, and the weights of clean and wrong labels."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    runs = {name: load_run(demo / name) for name in COLOURS}
    for name, run in runs.items():
        style = {"oracle": "--", "clean-only": ":"}.get(name, "-")
        left.plot(
            run.rounds["round"],
            100 * run.rounds["test_accuracy"],
            style,
            color=COLOURS[name],
            label="auto, the default" if name == "auto" else name,
        )
    left.set(xlabel="round", ylabel="test accuracy (%)", ylim=(60, 100))
    left.legend(frameon=False, loc="lower left")
    weights = runs["auto"].weights
    wrong = weights["label"] != weights["true_label"]
    right.hist(
        [weights["weight"][~wrong], weights["weight"][wrong]],
        bins=25,
        stacked=True,
        color=["#BBBBBB", "#D55E00"],
        label=["label is right", "label is wrong"],
    )
    right.axvline(0.5, color="black", linewidth=0.8, linestyle=":")
    right.set(xlabel="weight that a site gave to a sample", ylabel="samples")
    right.legend(frameon=False, loc="upper center")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=130, metadata={"Software": None})


def scaling(results: Path, out: Path) -> None:
    """Draw seconds and memory of a round against each size, with the fitted power."""
    found = json.loads(results.read_text(encoding="utf-8"))
    figure = Figure(figsize=(12, 5), layout="constrained")
    grid = figure.subplots(2, len(COLUMNS), sharex="col")
    for (sweep, (label, colour)), column in zip(COLUMNS.items(), grid.T, strict=True):
        points = [p for p in found["points"] if p["sweep"] == sweep]
        n = np.array([p["n"] for p in points], dtype=float)
        for axes, (key, unit) in zip(
            column, (("seconds", "seconds"), ("beyond_mb", "memory")), strict=True
        ):
            b = found["exponents"][f"scaling_{sweep}_{unit}_exponent"]
            _power(axes, n, np.array([p[key] for p in points]), b, colour)
        column[1].set_xlabel(label)
    grid[0, 0].set_ylabel("seconds per round")
    grid[1, 0].set_ylabel("memory of the run (MB)")
    figure.savefig(out, dpi=130, metadata={"Software": None})


def clean_samples(results: Path, out: Path) -> None:
    """Draw F1 of the audit and accuracy against the number of clean samples."""
    rows = json.loads(results.read_text(encoding="utf-8"))["rows"]
    figure = Figure(figsize=(9, 3), layout="constrained")
    panels = [(data, key) for data in ("digits", "breast cancer") for key in ("f1", "accuracy")]
    titles = {"f1": "F1 of the flags", "accuracy": "accuracy"}
    for axes, (data, key) in zip(figure.subplots(1, 4, sharey=True), panels, strict=True):
        for method, colour in CLEAN_COLOURS.items():
            found: dict[int, list[float]] = {}
            for row in rows:
                if (row["data"], row["method"]) == (data, method):
                    found.setdefault(row["clean"], []).append(row[key])
            sizes = sorted(found)
            values = [found[n] for n in sizes]
            axes.fill_between(
                sizes, [min(v) for v in values], [max(v) for v in values], color=colour, alpha=0.15
            )
            axes.plot(sizes, [np.mean(v) for v in values], "o-", color=colour, label=method, ms=3)
        axes.set_xscale("log")
        axes.set_xticks(sizes, [str(n) for n in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set(title=f"{data}: {titles[key]}", xlabel="clean samples")
        axes.title.set_fontsize(9)
        axes.grid(alpha=0.15)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False, loc="lower right")
    figure.savefig(out, dpi=130, metadata={"Software": None})


def total_bytes(results: Path, out: Path) -> None:
    """Draw accuracy and F1 against total bytes, in those of dense FedAvg; means of the seeds."""
    found = rows(results)
    datasets = list(dict.fromkeys(row.dataset for row in found))
    figure = Figure(figsize=(3.4 * len(datasets), 5), layout="constrained")
    grid = figure.subplots(2, len(datasets), sharex="col", squeeze=False)
    colours = {"posterior": "#009E73", "out-of-fold": "#D55E00"}
    colours |= {"single-loop": "#0072B2", "fedavg": "#767676"}
    for dataset, column in zip(datasets, grid.T, strict=True):
        for method, colour in colours.items():
            own = [row for row in found if (row.dataset, row.method) == (dataset, method)]
            style = {"color": colour, "label": method, "markersize": 4}
            shares = [row.share for row in own]
            column[0].semilogx(shares, [100 * row.accuracy for row in own], "o-", **style)
            judged = [row for row in own if row.f1 is not None]
            column[1].semilogx([r.share for r in judged], [r.f1 for r in judged], "o-", **style)
        column[0].set_title(dataset, fontsize=10)
        column[1].set_xlabel("total bytes / dense FedAvg's")
        for axes in column:
            axes.axvline(0.1, color="black", linewidth=0.8, linestyle=":")
            axes.grid(alpha=0.15)
            axes.spines[["top", "right"]].set_visible(False)
        low, high = column[1].get_ylim()
        middle, half = (low + high) / 2, max((high - low) / 2, 0.02)  # no noise magnified
        column[1].set_ylim(middle - half, middle + half)
    grid[0, 0].set_ylabel("test accuracy (%)")
    grid[1, 0].set_ylabel("F1 of the flags")
    grid[0, 0].legend(frameon=False, loc="lower right")
    figure.savefig(out, dpi=130, metadata={"Software": None})


def liars(out: Path) -> None:
    """Draw what three liars of ten cost in accuracy, per lie and rule; a dot is a seed."""
    figure = Figure(figsize=(9, 3), layout="constrained")
    axes, shades = figure.subplots(), ("#0072B2", "#009E73", "#E69F00", "#D55E00", "#767676")
    honest = {n: row["accuracy"] for n, row in enumerate(runs("digits-mlp", "mean", "none", 0))}
    for place, (rule, colour) in enumerate(zip(RULES, shades, strict=True)):
        for n, lie in enumerate(("none", *LIES)):
            found = runs("digits-mlp", rule, lie, 3 * (lie != "none"))
            lost = [100 * (honest[seed] - row["accuracy"]) for seed, row in enumerate(found)]
            at = n + 0.16 * (place - 2)
            axes.bar(at, np.mean(lost), 0.14, color=colour, label=None if n else rule)
            axes.plot([at] * len(lost), lost, ".", color="black", markersize=2.5)
    axes.axhline(4, color="black", linewidth=0.8, linestyle=":")
    said = (SAID[lie].replace(" again", "\nagain", 1).replace(" and N", "\nand N") for lie in LIES)
    axes.set_xticks(range(1 + len(LIES)), ["no liar", *said])
    axes.tick_params(axis="x", labelsize=7)
    axes.set(ylabel="points of accuracy lost")
    axes.legend(frameon=False, fontsize=8, ncols=5, loc="upper left")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, dpi=130, metadata={"Software": None})


def privacy(results: Path, out: Path) -> None:
    """Draw accuracy against epsilon; dotted lines are the same sites without noise."""
    found = json.loads(results.read_text(encoding="utf-8"))
    figure = Figure(figsize=(5, 3), layout="constrained")
    axes = figure.subplots()
    for sites, colour in SITES_COLOURS.items():
        by: dict[float, list[float]] = {}
        for name, row in found.items():
            method, count, epsilon, seen, _, _ = name.split()
            if (method, int(count), seen) == ("fedavg", sites, "sum"):
                by.setdefault(float(epsilon), []).append(100 * row["accuracy"])
        levels = sorted(level for level in by if level)
        if len(levels) < 2 or 0.0 not in by:
            raise SystemExit("run `python -m benchmarks privacy` first")
        values = [by[level] for level in levels]
        axes.fill_between(
            levels, [min(v) for v in values], [max(v) for v in values], color=colour, alpha=0.15
        )
        axes.plot(
            levels, [np.mean(v) for v in values], "o-", color=colour, ms=3, label=f"{sites} sites"
        )
        axes.axhline(float(np.mean(by[0.0])), color=colour, linestyle=":", linewidth=1)
    axes.set_xscale("log")
    axes.set_xticks(levels, [f"{level:g}" for level in levels])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlabel="epsilon at delta 1e-5", ylabel="test accuracy (%)")
    axes.legend(frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, dpi=130, metadata={"Software": None})


def estimators(results: Path, out: Path) -> None:
    """Draw the error of every estimator against bytes and exchanges, a column per system."""
    found = [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted(results.glob("*-s0.json"))
    ]
    figure = Figure(figsize=(2.6 * len(found), 6), layout="constrained")
    grid = figure.subplots(2, len(found), sharey=True, squeeze=False)
    for one, column in zip(found, grid.T, strict=True):
        for name, curve in one["curves"].items():
            kind = next(known for known in SHOWN if name.startswith(known))
            form = name.removeprefix(kind).strip(", ")
            style = {"color": SHOWN[kind], "ls": FORMS.get(form, "-"), "label": name, "ms": 2.5}
            errors = [row["error"] if row["error"] < 10 else np.nan for row in curve]
            for axes, key in zip(column, ("bytes", "exchanges"), strict=True):
                axes.loglog([row[key] for row in curve], errors, marker="o", lw=1.1, **style)
        column[0].set_title(one["system"], fontsize=9)
        column[0].set(xlabel="bytes")
        column[1].set(xlabel="exchanges", ylim=(1e-3, 10))
    for axes in grid[:, 0]:
        axes.set_ylabel("‖v − v*‖ / ‖v*‖")
    for axes in grid.flat:
        axes.grid(alpha=0.15)
        axes.spines[["top", "right"]].set_visible(False)
    lines, names = grid[0, 0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    figure.savefig(out, dpi=110, metadata={"Software": None})


def _power(axes: Axes, n: np.ndarray, values: np.ndarray, b: float, colour: str) -> None:
    """Draw points and the nearest c n^b, over two decades at least, so that slopes compare."""
    c = np.exp(np.mean(np.log(values) - b * np.log(n)))
    axes.loglog(n, c * n**b, color=colour, linewidth=1.2, alpha=0.6)
    axes.loglog(n, values, "o", color=colour, markersize=5)
    middle = np.sqrt(values.min() * values.max())
    half = max(10.0, 1.5 * np.sqrt(values.max() / values.min()))
    axes.set_ylim(middle / half, middle * half)
    if n.max() < 100 * n.min():
        axes.set_xticks(n, [f"{size:g}" for size in n])
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_locator(LogLocator(numticks=9))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_title(f"$\\sim n^{{{b:z.2f}}}$", fontsize=11)
    axes.grid(alpha=0.15)
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]), IMAGES / "demo.png")
    scaling(SCALING, IMAGES / "scaling.png")
    clean_samples(CLEAN_SAMPLES, IMAGES / "clean_samples.png")
    total_bytes(BYTES, IMAGES / "bytes.png")
    liars(IMAGES / "liars.png")
    estimators(ESTIMATORS, IMAGES / "estimators.png")
    privacy(PRIVACY, IMAGES / "privacy.png")  # last: it needs all levels
