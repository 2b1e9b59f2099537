"""Axes in the report's style, and figures as inline SVG.

A figure is drawn at about the width of a phone and scaled by the page, so its text stays readable.
Text and axes take the colour of the page around them (`currentColor`), which suits light and
dark. The same numbers give the same bytes.
"""

from __future__ import annotations

import io
import re
from contextlib import AbstractContextManager

import matplotlib.style
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedsift.report.palette import INK, css

SIZE = (380, 236)
STYLE = {
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": 72,
    "font.size": 10,
    "grid.alpha": 0.15,
    "grid.color": INK,
    "grid.linewidth": 0.8,
    "lines.markersize": 3.2,
    "svg.fonttype": "none",
    "xtick.color": INK,
    "ytick.color": INK,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
}


def style() -> AbstractContextManager[None]:
    """Set matplotlib's defaults and the report's style while a figure is made."""
    return matplotlib.style.context(["default", STYLE])


def new_axes() -> tuple[Figure, Axes]:
    """Return an empty figure and its axes; no global state is touched."""
    width, height = SIZE
    figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
    axes = figure.add_subplot()
    axes.set_axisbelow(True)
    return figure, axes


def to_svg(figure: Figure, key: str, title: str) -> Markup:
    """Render a figure as an `<svg>` element that can share an HTML page with others."""
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context({"svg.hashsalt": key}):  # ids of clip paths: unique, repeatable
        figure.savefig(buffer, format="svg", metadata=nothing, transparent=True)
    body = buffer.getvalue().partition("<svg")[2].partition(">")[2]
    body = re.sub(r"<style.*?</style>", "", body, flags=re.DOTALL)  # it would style the page
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    body = re.sub(r'font: ([\d.]+px) [^;"]*', r"font-size: \1", body)
    body = re.sub(r"(?<=: )#[0-9a-f]{6}\b", lambda hit: css(hit[0]), body)
    body = body.replace("xlink:href", "href")
    head = '<svg viewBox="0 0 {} {}" role="img" aria-labelledby="{id}"><title id="{id}">{}</title>'
    return Markup(head).format(*SIZE, title, id=key) + Markup(body)
