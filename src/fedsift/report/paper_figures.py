"""Figures 1 to 3 of the paper, drawn from files of results only.

    fig1          rows: datasets   columns: i.i.d., non-i.i.d.   lines: methods   y: test accuracy
    fig2, fig3    rows: methods    columns: i.i.d., non-i.i.d.   lines: rates     y: F1

A line is the mean over the seeds and its band goes from the lowest to the highest of them. The axis
of accuracy leaves out what is lower than any method after a quarter of the rounds: the methods
differ by points at the end, and all of them start from chance. ``disagreement`` is in the tables
only, unless it is alone: its model is FedAvg's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedsift.errors import InputError
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
RATE_COLOURS = {
    1.0: INK,
    10.0: COLOURS["single-loop"],
    100.0: COLOURS["focus"],
    1000.0: COLOURS["iter-sketch"],
}
MARKS = (*"oXs^Dpd8H+xv<>Ph1234.|", "$c$", "$n$", "$y$", "*")
MARKERS = dict(zip(METHODS, MARKS, strict=True))  # for print without colours
PANEL = (3.6, 2.3)  # inches
DPI = 200


@dataclass(frozen=True)
class Layout:
    """What a figure shows of a folder of results."""

    datasets: tuple[str, ...]
    measure: str
    by_rate: bool

    def select(self, curves: Sequence[Curve]) -> list[Curve]:
        """Return its curves; those on digits where there are none on its own datasets."""
        fitting = [c for c in curves if (c.rate in RATE_COLOURS) == self.by_rate]
        fitting = [c for c in fitting if self.by_rate or c.rate in (None, FIG1_RATE)]
        fitting = [c for c in fitting if not c.spread(self.measure).empty]
        own = [c for c in fitting if c.dataset in self.datasets]
        return own or [c for c in fitting if c.dataset == "digits"]

    def row(self, curve: Curve) -> str:
        """Return the title of the row of a curve."""
        return curve.method if self.by_rate else DATASETS.get(curve.dataset, curve.dataset)


LAYOUTS = {
    "fig1": Layout(("mnist", "cifar10", "femnist"), "test_accuracy", by_rate=False),
    "fig2": Layout(("mnist",), "weights_f1", by_rate=True),
    "fig3": Layout(("femnist",), "weights_f1", by_rate=True),
}


def write_figure(name: str, results: Path, out: Path) -> list[Path]:
    """Draw a figure of a folder of results as PNG and SVG, with its table in Markdown."""
    curves = select(name, results)
    text = markdown(*table(curves))
    write_text(out / f"{name}.md", text)
    return [*save(draw(name, curves), out, name), out / f"{name}.md"]


def select(name: str, results: Path) -> list[Curve]:
    """Return the curves of a figure."""
    curves = LAYOUTS[name].select(load_curves(results))
    if not curves:
        raise InputError(
            f"{results} has no results for {name}; `fedsift reproduce {name}` makes some"
        )
    return curves


def draw(name: str, curves: Sequence[Curve]) -> Figure:
    """Draw a panel per row and split, with one legend below."""
    layout = LAYOUTS[name]
    curves = [curve for curve in curves if curve.method != "disagreement"] or curves
    rows = list(dict.fromkeys(layout.row(curve) for curve in curves))
    splits = [split for split in SPLITS if any(c.split == split for c in curves)]
    with style(), matplotlib.rc_context({"font.size": 9}):
        size = (PANEL[0] * len(splits), PANEL[1] * len(rows) + 0.5)
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(len(rows), len(splits), squeeze=False, sharey="row")
        for row, line in zip(rows, panels, strict=True):
            for split, axes in zip(splits, line, strict=True):
                part = [c for c in curves if (layout.row(c), c.split) == (row, split)]
                _panel(axes, part, layout)
                axes.set_title(f"{_heading(layout, row, curves)}, {SPLITS[split]}", fontsize=9)
            line[0].set_ylabel("F1 of weights" if layout.by_rate else "Test accuracy (%)")
            if not layout.by_rate:  # panels of a row share their axis
                line[0].set_ylim(_lowest(c for c in curves if layout.row(c) == row) - 2, None)
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
        axes.text(0.5, 0.5, "no runs", transform=axes.transAxes, ha="center", color="0.5")
        axes.set_xticks([])
        return
    factor = 1.0 if layout.by_rate else 100.0
    for curve in curves:
        spread = factor * curve.spread(layout.measure)
        colour, dashes, label = _look(curve, layout)
        rounds = spread.index.to_numpy()
        axes.plot(
            rounds,
            spread["mean"].to_numpy(),
            color=colour,
            dashes=dashes or (None, None),
            linewidth=1.3,
            marker="" if layout.by_rate else MARKERS.get(curve.method, ""),
            markersize=3.5,
            label=label,
        )
        if len(curve.runs) > 1:
            low, high = spread["min"].to_numpy(), spread["max"].to_numpy()
            axes.fill_between(rounds, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10], integer=True))
    if layout.by_rate:
        axes.set_ylim(0, 1)


def _lowest(curves: Iterable[Curve]) -> float:
    """Return the lowest accuracy, in per cent, that a curve has after a quarter of its rounds."""
    means = [100 * curve.spread("test_accuracy")["mean"] for curve in curves]
    return min(float(mean[mean.index >= mean.index.max() / 4].min()) for mean in means)


def _look(curve: Curve, layout: Layout) -> tuple[str, Dash, str]:
    if layout.by_rate and curve.rate is not None:
        place = list(RATE_COLOURS).index(curve.rate)
        return RATE_COLOURS[curve.rate], DASHES[place], f"{curve.rate:g}×"
    dashes = ORACLE_DASHES[0] if curve.method == "oracle" else DASHES[0]
    return colours({curve.method})[curve.method], dashes, curve.method


def _heading(layout: Layout, row: str, curves: Sequence[Curve]) -> str:
    dataset = DATASETS.get(curves[0].dataset, curves[0].dataset)
    return f"{dataset}, {row}" if layout.by_rate else row
