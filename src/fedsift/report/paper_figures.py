"""Figures 1 to 3 of the paper, drawn from files of results only.

    fig1          rows: datasets   columns: i.i.d., non-i.i.d.   lines: methods   y: test accuracy
    fig2, fig3    rows: methods    columns: i.i.d., non-i.i.d.   lines: rates     y: F1

A line is the mean over the seeds and its band goes from the lowest to the highest of them. The axis
of accuracy leaves out what is lower than any method after a quarter of the rounds, the clean set
alone apart: the methods differ by points at the end, and all of them start from chance. The model
of ``disagreement`` is FedAvg's, so that they share a line of accuracy. Grey lines in Figures 2 and
3 are controls, which have no rate. A figure is of one of the terms of ``paper_grid``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedsift.experiment.paper_grid import AS_PAPER
from fedsift.files import write_atomically, write_text
from fedsift.report.drawing import style
from fedsift.report.palette import COLOURS, DASHES, INK, ORACLE_DASHES, Dash, colours
from fedsift.report.paper_results import (
    DATASETS,
    METHODS,
    SPLITS,
    Curve,
    load_curves,
    markdown,
    table,
)

FIG1_RATE = 20.0
CONTROLS = {"no-hessian": "--", "disagreement": "-.", "clean-only": ":"}  # of Figures 2 and 3
RATE_COLOURS = {
    1.0: INK,
    10.0: COLOURS["single-loop"],
    100.0: COLOURS["focus"],
    1000.0: COLOURS["iter-sketch"],
}
MARKS = (*"oXs^Dpd8H+xv<>Ph1234.|", "$c$", "$n$", "$y$", "*")
MARKERS = dict(zip(METHODS, MARKS, strict=True))  # for print without colours
PANEL = (4.4, 2.9)  # inches
DPI = 200


@dataclass(frozen=True)
class Layout:
    """What a figure shows of a folder of results."""

    datasets: tuple[str, ...]
    measure: str
    by_rate: bool

    def select(self, curves: Sequence[Curve], terms: str) -> list[Curve]:
        """Return its curves; those on digits where there are none on its own datasets."""
        fitting = [c for c in curves if c.terms in (terms, None) and self._shows(c)]
        fitting = [c for c in fitting if not c.spread(self.measure).empty]
        own = [c for c in fitting if c.dataset in self.datasets]
        own = own or [c for c in fitting if c.dataset == "digits"]
        return own if any(c.terms == terms and not self.is_control(c) for c in own) else []

    def _shows(self, curve: Curve) -> bool:
        if not self.by_rate:
            return curve.rate in (None, FIG1_RATE)
        usual = curve.iterations == 1 and not curve.preset
        return usual and (curve.rate in RATE_COLOURS or self.is_control(curve))

    def is_control(self, curve: Curve) -> bool:
        """Return whether a curve is a control without a rate, in every panel of its split."""
        return self.by_rate and curve.method in CONTROLS

    def row(self, curve: Curve) -> str:
        """Return the title of the row of a curve."""
        return curve.method if self.by_rate else DATASETS.get(curve.dataset, curve.dataset)


LAYOUTS = {
    "fig1": Layout(("mnist", "femnist", "cifar10"), "test_accuracy", by_rate=False),
    "fig2": Layout(("mnist",), "weights_f1", by_rate=True),
    "fig3": Layout(("femnist",), "weights_f1", by_rate=True),
}


def write_figure(name: str, results: Path, out: Path, terms: str = AS_PAPER) -> list[Path]:
    """Draw a figure of a folder of results as PNG and SVG, with its table in Markdown."""
    curves = select(name, results, terms)
    file = name if terms == AS_PAPER else f"{name}-{terms}"
    write_text(out / f"{file}.md", markdown(*table(curves)))
    return [*save(draw(name, curves), out, file), out / f"{file}.md"]


def select(name: str, results: Path, terms: str = AS_PAPER) -> list[Curve]:
    """Return the curves of a figure; none where there are no results for it."""
    return LAYOUTS[name].select(load_curves(results), terms)


def draw(name: str, curves: Sequence[Curve]) -> Figure:
    """Draw a panel per row and split, with one legend below."""
    layout = LAYOUTS[name]
    shown = [c for c in curves if not layout.is_control(c)]
    rows = list(dict.fromkeys(layout.row(curve) for curve in shown))
    splits = [split for split in SPLITS if any(c.split == split for c in shown)]
    with style(), matplotlib.rc_context({"font.size": 9}):
        size = (PANEL[0] * len(splits), PANEL[1] * len(rows) + 0.9)
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(len(rows), len(splits), squeeze=False, sharey="row")
        for row, line in zip(rows, panels, strict=True):
            for split, axes in zip(splits, line, strict=True):
                part = [c for c in shown if (layout.row(c), c.split) == (row, split)]
                _panel(axes, part, layout)
                if part:
                    _draw_controls(axes, [c for c in curves if c.split == split], layout)
                axes.set_title(f"{_heading(layout, row, shown)}, {SPLITS[split]}", fontsize=9)
            line[0].set_ylabel("F1 of weights" if layout.by_rate else "Test accuracy (%)")
            if not layout.by_rate:  # panels of a row share their axis
                line[0].set_ylim(_lowest([c for c in shown if layout.row(c) == row]) - 2, None)
        for axes in panels[-1]:
            axes.set_xlabel("Round")
        handles = {str(line.get_label()): line for axes in panels.flat for line in axes.get_lines()}
        figure.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False
        )
    return figure


def save(figure: Figure, out: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG; the same numbers give the same bytes."""
    paths = [out / f"{name}.png", out / f"{name}.svg"]
    nothing = {"png": {"Software": None}, "svg": dict.fromkeys(("Creator", "Date"))}
    with style(), matplotlib.rc_context({"svg.hashsalt": name}):
        for path in paths:
            kind = path.suffix[1:]
            options = {"format": kind, "metadata": nothing[kind], "dpi": DPI, "facecolor": "white"}
            write_atomically(path, lambda part, o=options: figure.savefig(part, **o))  # type: ignore[misc]
    return paths


def _panel(axes: Axes, curves: Sequence[Curve], layout: Layout) -> None:
    if not curves:
        axes.text(0.5, 0.5, "not run yet", transform=axes.transAxes, ha="center", color="0.5")
        axes.set_xticks([])
        return
    factor = 1.0 if layout.by_rate else 100.0
    methods = {curve.label for curve in curves}
    for curve in curves:
        shares_line = curve.label == "disagreement" and "fedavg" in methods and not layout.by_rate
        if shares_line:
            continue
        spread = factor * curve.spread(layout.measure)
        colour, dashes, label = _look(curve, layout, methods)
        rounds = spread.index.to_numpy()
        axes.plot(
            rounds,
            spread["mean"].to_numpy(),
            color=colour,
            dashes=dashes or (None, None),
            linewidth=1.3,
            marker="" if layout.by_rate else MARKERS.get(curve.method, ""),
            markersize=3.5,
            markevery=max(1, len(rounds) // 10),
            label=label,
        )
        if len(curve.runs) > 1:
            low, high = spread["min"].to_numpy(), spread["max"].to_numpy()
            axes.fill_between(rounds, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10], integer=True))
    if layout.by_rate:
        axes.set_ylim(0, 1)


def _draw_controls(axes: Axes, curves: Sequence[Curve], layout: Layout) -> None:
    for curve in curves:
        if layout.is_control(curve):
            mean, last = curve.spread(layout.measure)["mean"], axes.get_xlim()[1]
            mean = mean[mean.index <= last]
            line = CONTROLS[curve.method]
            axes.plot(
                mean.index.to_numpy(),
                mean.to_numpy(),
                color="0.45",
                linestyle=line,
                linewidth=1.0,
                label=curve.label,
            )


def _lowest(curves: Sequence[Curve]) -> float:
    """Return the lowest accuracy, in per cent, that a curve has after a quarter of its rounds."""
    learning = [curve for curve in curves if curve.method != "clean-only" and not curve.preset]
    means = [100 * curve.spread("test_accuracy")["mean"] for curve in learning or curves]
    return min(float(mean[mean.index >= mean.index.max() / 4].min()) for mean in means)


def _look(curve: Curve, layout: Layout, methods: Collection[str]) -> tuple[str, Dash, str]:
    if layout.by_rate and curve.rate is not None:
        place = list(RATE_COLOURS).index(curve.rate)
        return RATE_COLOURS[curve.rate], DASHES[place], f"{curve.rate:g}×"
    dashes = ORACLE_DASHES[0] if curve.method == "oracle" else DASHES[0]
    if curve.iterations > 1 or curve.preset:
        dashes = DASHES[1]
    both = curve.label == "fedavg" and "disagreement" in methods
    label = "fedavg, disagreement" if both else curve.label
    return colours({curve.method})[curve.method], dashes, label


def _heading(layout: Layout, row: str, curves: Sequence[Curve]) -> str:
    dataset = DATASETS.get(curves[0].dataset, curves[0].dataset)
    return f"{dataset}, {row}" if layout.by_rate else row
