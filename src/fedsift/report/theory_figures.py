"""The figure and the table of ``fedsift reproduce theory``, from its file of numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from fedsift.errors import InputError
from fedsift.files import write_text
from fedsift.report.drawing import style
from fedsift.report.palette import COLOURS, DASHES, GREY, INK
from fedsift.report.paper_figures import save
from fedsift.report.paper_results import markdown

LOOKS = {"topk": COLOURS["iter-topk"], "count-sketch": COLOURS["iter-sketch"]}
SPARSITY = {
    "product": ("∇²G v", COLOURS["iter-sketch"]),
    "gradient_of_q": ("∇q(v)", COLOURS["iter-topk"]),
    "column": ("a column of ∇²G", COLOURS["single-loop"]),
    "matrix": ("all of ∇²G", INK),
}
SHOWN_RATES = (10, 100, 1000)

Rows = tuple[list[str], list[list[str]]]


def write_theory_figures(path: Path, out: Path) -> tuple[list[Path], Rows]:
    """Draw the file; return what was written and the table's titles and rows."""
    measured = read_theory(path)
    rows = theory_table(measured)
    write_text(out / "theory.md", markdown(*rows))
    return [*save(draw_theory(measured), out, "theory"), out / "theory.md"], rows


def read_theory(path: Path) -> dict[str, Any]:
    """Read the file of numbers."""
    try:
        measured: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"there is no {path}; `fedsift reproduce theory` makes it") from None
    except ValueError:
        raise InputError(f"{path} is not valid JSON; make it again") from None
    return measured


def theory_table(measured: Mapping[str, Any]) -> Rows:
    """Return what was measured for each claim."""
    rows = []
    for name, found in measured["iterative"].items():
        at = f"I = {found['iterations'][0]} to {found['iterations'][-1]}"
        claim = f"Algorithm 2, {name}: ‖v − v*‖² = O(1/I)"
        rows.append([claim, at, f"{_ends(found)}, like I^{found['slope']:.2f}"])
    found = measured["non_iterative"]
    at = f"r₁ = {found['r1'][0]} to {found['r1'][-1]}, r₂ = r₁²"
    claim = "Algorithm 3: ‖v − v*‖ = O(r₁^−½)"
    rows.append([claim, at, f"{_ends(found)}, like r₁^{found['slope']:.2f}"])
    sparse = measured["sparsity"]
    for rate in SHOWN_RATES:
        place = sparse["rate"].index(rate)
        parts = [f"{name} {100 * sparse[key][place]:.3g} %" for key, (name, _) in SPARSITY.items()]
        claim = "∇q is sparse, the Hessian denser: squared norm in the d / rate largest entries"
        rows.append([claim, f"rate {rate}", ", ".join(parts)])
    claim = "few singular values dominate: stable rank of the Hessian"
    rows.append([claim, f"d = {sparse['parameters']}", f"{sparse['stable_rank']:.1f}"])
    return ["claim", "where", "measured"], rows


def draw_theory(measured: Mapping[str, Any]) -> Figure:
    """Draw the two theorems and the shares side by side."""
    with style(), matplotlib.rc_context({"font.size": 9}):
        figure = Figure(figsize=(10.5, 3.1), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        for number, (name, found) in enumerate(measured["iterative"].items()):
            label = f"{name}: slope {found['slope']:.2f}"
            _errors(left, found, "iterations", LOOKS.get(name, INK), label, number)
        _reference(left, next(iter(measured["iterative"].values())), "iterations", -1.0, "−1")
        left.set(title="Theorem 1", xlabel="Iterations I", ylabel="‖v − v*‖² / ‖v*‖²")
        found = measured["non_iterative"]
        label = f"non-iter: slope {found['slope']:.2f}"
        _errors(middle, found, "r1", COLOURS["non-iter"], label, 0)
        _reference(middle, found, "r1", -0.5, "−½")
        reachable = [(r, f) for r, f in zip(found["r1"], found["floor"], strict=True) if f > 1e-6]
        middle.plot(
            *zip(*reachable, strict=True), color=INK, dashes=(1, 1.5), label="best in span S₁ᵀ"
        )
        middle.set(title="Theorem 2", xlabel="r₁ (r₂ = r₁²)", ylabel="‖v − v*‖ / ‖v*‖")
        sparse = measured["sparsity"]
        for number, (key, (name, colour)) in enumerate(SPARSITY.items()):
            shares = [100 * share for share in sparse[key]]
            dashes = DASHES[number] or (None, None)
            right.plot(sparse["rate"], shares, color=colour, dashes=dashes, label=name)
        right.set(xscale="log", ylim=(0, 100), title="Squared norm in d / rate entries")
        right.set(xlabel="Rate", ylabel="Share (%)")
        for axes in (left, middle, right):
            axes.set_axisbelow(True)
            axes.legend(frameon=False, fontsize=8)
    return figure


def _errors(
    axes: Axes, found: Mapping[str, Any], key: str, colour: str, label: str, number: int
) -> None:
    dashes = DASHES[number] or (None, None)
    axes.loglog(found[key], found["median"], color=colour, dashes=dashes, marker="o", label=label)
    axes.fill_between(found[key], found["lowest"], found["highest"], color=colour, alpha=0.15)
    axes.set_xticks(found[key], [str(at) for at in found[key]])
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())


def _reference(axes: Axes, found: Mapping[str, Any], key: str, slope: float, name: str) -> None:
    """Draw the theorem's bound, from the first point on."""
    at, first = found[key], found["median"][0]
    line = [first * (x / at[0]) ** slope for x in at]
    axes.plot(at, line, color=GREY, linewidth=1, label=f"the bound's slope, {name}")


def _ends(found: Mapping[str, Any]) -> str:
    return f"{found['median'][0]:.2g} to {found['median'][-1]:.2g}"
