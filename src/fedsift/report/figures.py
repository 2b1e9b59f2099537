"""The charts of a setting, each with its title, legend and one-sentence caption.

A chart for which no run has a number is left out. Names of runs are in an HTML legend, which
wraps on a narrow screen, and not in the drawing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from fedsift.audit import THRESHOLD
from fedsift.report.compare import Setting, Variant
from fedsift.report.drawing import new_axes, style, to_svg
from fedsift.report.palette import GREY, INK, Dash

BINS = 25
MANY_POINTS = 25
MEGABYTE = 1e6
LOG_SPAN = 30
ORACLE_NOTE = "; the oracle knows which labels are wrong and leaves them out."
NICE = [1, 2, 5, 10]


@dataclass(frozen=True)
class LegendEntry:
    """A name beside a sample of its line, or of its bar when `bar` gives the bar's opacity."""

    name: str
    colour: str
    dash: Dash = ()
    bar: float | None = None


@dataclass(frozen=True)
class Chart:
    """A figure of the report."""

    title: str
    caption: str
    legend: tuple[LegendEntry, ...]
    svg: Markup


@dataclass(frozen=True)
class LineSpec:
    """What a line chart shows: `y` and `x` are computed from the rounds of a run."""

    key: str
    title: str
    caption: str
    y: Callable[[pd.DataFrame], pd.Series]
    unit: str = ""
    x: Callable[[pd.DataFrame], pd.Series] = lambda rounds: rounds["round"]
    x_label: str = "Round"
    bounds: tuple[float, float] | None = None  # the axis shows no more than this
    limits: tuple[float, float] | None = None  # the axis shows just this
    log: bool | None = False  # None: when the lines end far apart


def _megabytes(rounds: pd.DataFrame) -> pd.Series:
    return (rounds["bytes_up"] + rounds["bytes_down"]).cumsum(skipna=False) / MEGABYTE


def _accuracy(rounds: pd.DataFrame) -> pd.Series:
    return 100 * rounds["test_accuracy"]


def _validation(rounds: pd.DataFrame) -> pd.Series:
    """Return the accuracy on the clean set, for runs that have no test set."""
    tested = rounds["test_accuracy"].notna().any()
    return 100 * rounds["validation_accuracy"] * (math.nan if tested else 1)


LINES = (
    LineSpec(
        "validation",
        "Accuracy on the clean set",
        "Share of the clean set that the model classifies correctly; there is no test set, and "
        "training uses the clean set.",
        _validation,
        unit="%",
        bounds=(0, 100),
    ),
    LineSpec(
        "accuracy",
        "Test accuracy",
        "Share of the test set that the model of each round classifies correctly.",
        _accuracy,
        unit="%",
        bounds=(0, 100),
    ),
    LineSpec(
        "f1",
        "Mislabelled samples found (F1)",
        "F1 of the weights: a label counts as flagged where its weight is below 0.5.",
        lambda rounds: rounds["weights_f1"],
        limits=(0, 1),
    ),
    LineSpec(
        "traffic",
        "Traffic so far",
        "Megabytes (10⁶ bytes) sent by all sites and the server together, up and down.",
        _megabytes,
        unit="MB",
        log=None,
    ),
    LineSpec(
        "accuracy-traffic",
        "Test accuracy against traffic",
        "The same accuracy against the megabytes sent so far: higher on the left is cheaper.",
        _accuracy,
        unit="%",
        x=_megabytes,
        x_label="MB sent",
        bounds=(0, 100),
    ),
    LineSpec(
        "validation",
        "Validation loss",
        "The outer loss: the loss on the server's clean validation set.",
        lambda rounds: rounds["validation_loss"],
    ),
    LineSpec(
        "residual",
        "Residual of the hypergradient solver",
        "Residual ‖Hv − ∇F‖ / ‖∇F‖ of the v that the weights moved along, on a log scale, by a "
        "sketch that does not steer v; v = 0 has 1.",
        lambda rounds: rounds["residual"].where(rounds["residual"] > 0),
        log=True,
    ),
)


def charts(setting: Setting, prefix: str) -> list[Chart]:
    """Draw every chart of a setting for which there are numbers; `prefix` makes ids unique."""
    lines = [_line_chart(setting, spec, f"{prefix}-{spec.key}") for spec in LINES]
    histograms = [
        _histogram(variant, f"{prefix}-weights-{number}")
        for number, variant in enumerate(setting.variants)
    ]
    return [chart for chart in (*lines, *histograms) if chart is not None]


def _line_chart(setting: Setting, spec: LineSpec, key: str) -> Chart | None:
    curves = [
        (variant, curve)
        for variant in setting.variants
        for run in variant.runs
        if len(curve := _curve(run.rounds, spec))
    ]
    if not curves:
        return None
    with style():
        figure, axes = new_axes()
        for variant, curve in curves:
            _draw(axes, variant, curve)
        _scale(axes, spec, [curve for _, curve in curves])
        shown = list(dict.fromkeys(variant for variant, _ in curves))
        last = [
            f"{variant.name} {curve['y'].iloc[-1]:.4g}{spec.unit and ' ' + spec.unit}"
            for variant, curve in curves
        ]
        svg = to_svg(figure, key, f"{spec.title}. Last values: {', '.join(last)}.")
    legend = tuple(LegendEntry(v.name, v.colour, v.dash) for v in shown)
    oracle = spec.key == "accuracy" and any(v.method == "oracle" for v in shown)
    caption = spec.caption.rstrip(".") + ORACLE_NOTE if oracle else spec.caption
    return Chart(spec.title, caption, legend, svg)


def _curve(rounds: pd.DataFrame, spec: LineSpec) -> pd.DataFrame:
    """Return the points that are known; rounds without an evaluation are skipped."""
    return pd.DataFrame({"x": spec.x(rounds), "y": spec.y(rounds)}).dropna()


def _draw(axes: Axes, variant: Variant, curve: pd.DataFrame) -> None:
    several, oracle = len(variant.runs) > 1, variant.method == "oracle"
    axes.plot(
        curve["x"].to_numpy(),
        curve["y"].to_numpy(),
        color=variant.colour,
        dashes=variant.dash or (None, None),
        linewidth=1.1 if several else 1.4 if oracle else 1.8,
        alpha=0.75 if several else 1.0,
        marker="o" if len(curve) <= MANY_POINTS else "",
        clip_on=False,
        zorder=3 if oracle else 2,
    )


def _scale(axes: Axes, spec: LineSpec, curves: list[pd.DataFrame]) -> None:
    ends = [curve["y"].iloc[-1] for curve in curves]
    apart = min(ends) > 0 and max(ends) > LOG_SPAN * min(ends)
    if spec.log or (spec.log is None and apart):
        _log_scale(axes)
    else:
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=NICE))
    if spec.bounds is not None:
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, spec.bounds[0]), min(high, spec.bounds[1]))
    elif spec.limits is not None:
        axes.set_ylim(*spec.limits)
    elif spec.log is None and not apart:
        axes.set_ylim(bottom=0)
    if spec.unit == "%":
        axes.yaxis.set_major_formatter("{x:g} %")
    elif spec.unit:
        axes.set_ylabel(spec.unit)
    axes.set_xlabel(spec.x_label)
    whole = spec.x_label == "Round"
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, steps=NICE, integer=whole))


def _log_scale(axes: Axes) -> None:
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:g}")


def _histogram(variant: Variant, key: str) -> Chart | None:
    """Draw the final weights of a variant, those of its runs pooled."""
    runs = [run for run in variant.runs if run.learns_weights]
    if not runs:
        return None
    table = pd.concat([run.weights for run in runs], ignore_index=True)
    table = table[np.isfinite(table["weight"])]
    groups = _weight_groups(table, variant.colour)
    span = (min(0.0, table["weight"].min()), max(1.0, table["weight"].max()))
    with style():
        figure, axes = new_axes()
        for entry, weights in groups:
            counts, edges = np.histogram(weights, bins=BINS, range=span)
            share = 100 * counts / len(weights)
            axes.stairs(share, edges, fill=True, color=entry.colour, alpha=entry.bar)
        axes.axvline(THRESHOLD, color=INK, linewidth=1, linestyle=(0, (1, 2)))
        axes.set_xlim(*span)
        axes.set_xlabel("Weight of the sample")
        axes.yaxis.set_major_formatter("{x:g} %")
        flagged = [f"{100 * np.mean(w < THRESHOLD):.1f} % of the {e.name}" for e, w in groups]
        title = f"Histogram of the weights of {variant.name}; below 0.5: {', '.join(flagged)}."
        svg = to_svg(figure, key, title)
    of = "of each group" if len(groups) > 1 else "of all samples"
    pooled = f", {len(runs)} runs pooled" if len(runs) > 1 else ""
    when = "Final weights" if all(run.finished for run in runs) else "Weights so far"
    caption = f"{when} as a share {of}{pooled}; the dotted line is at 0.5."
    return Chart(f"Weights of {variant.name}", caption, tuple(e for e, _ in groups), svg)


def _weight_groups(table: pd.DataFrame, colour: str) -> list[tuple[LegendEntry, np.ndarray]]:
    """Split weights into clean and wrong labels where the truth is known of all of them."""
    weights = table["weight"].to_numpy(dtype=float)
    if table["true_label"].isna().any():
        return [(LegendEntry(f"{len(weights):,} samples", colour, bar=0.8), weights)]
    wrong = (table["label"] != table["true_label"]).to_numpy(dtype=bool)
    clean = LegendEntry(f"{np.sum(~wrong):,} clean labels", GREY, bar=0.55)
    mislabelled = LegendEntry(f"{np.sum(wrong):,} wrong labels", colour, bar=0.8)
    groups = [(clean, weights[~wrong]), (mislabelled, weights[wrong])]
    return [(entry, part) for entry, part in groups if len(part)]
