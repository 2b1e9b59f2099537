"""The figures and tables of ``fedsift reproduce theory``, from its files of numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedsift.errors import InputError
from fedsift.files import write_text
from fedsift.report.drawing import style
from fedsift.report.palette import COLOURS, GREY, INK
from fedsift.report.paper_figures import save
from fedsift.report.paper_results import markdown

Measured = Mapping[str, Any]
Rows = tuple[list[str], list[list[str]]]
FORMS = {"listing": ("as listed", "-"), "gradient": ("Eq. 12", "--"), "ef21": ("EF21", ":")}
LOOKS = {"topk": COLOURS["iter-topk"], "count-sketch": COLOURS["iter-sketch"]}
CYCLE = (COLOURS["iter-topk"], COLOURS["non-iter"], COLOURS["iter-sketch"], INK)
SPARSITY = {
    "product": ("∇²G v", COLOURS["iter-sketch"]),
    "gradient_of_q": ("∇q(v)", COLOURS["iter-topk"]),
    "column": ("a column of ∇²G", COLOURS["single-loop"]),
    "matrix": ("all of ∇²G", INK),
}
SAID = {True: "yes", False: "no", None: "–"}


def write_theory_figures(folder: Path, out: Path, parts: Sequence[str]) -> tuple[list[Path], Rows]:
    """Draw parts from their files; return what was written and all rows of their tables."""
    paths, rows = list[Path](), list[list[str]]()
    for part in parts:
        measured = read_theory(folder, part)
        titles, own = theory_table(measured)
        rows += own
        write_text(out / f"theory-{part}.md", markdown(titles, own))
        paths += [*save(draw(part, measured), out, f"theory-{part}"), out / f"theory-{part}.md"]
    return paths, (titles, rows)


def read_theory(folder: Path, part: str) -> dict[str, Any]:
    """Read the numbers of a part."""
    path = folder / f"theory-{part}.json"
    try:
        measured: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"there is no {path}; `fedsift reproduce theory --part {part}` makes it"
        ) from None
    except ValueError:
        raise InputError(f"{path} is not valid JSON; make it again") from None
    return measured


def theory_table(measured: Measured) -> Rows:
    """Return what theory says of each claim, what was measured, and whether they agree."""
    rows = [
        [check["claim"], check["theory"], check["measured"], SAID[check["holds"]]]
        for check in measured["checks"]
    ]
    return ["claim", "theory", "measured", "holds"], rows


def draw(part: str, measured: Measured) -> Figure:
    """Draw a part."""
    with style(), matplotlib.rc_context({"font.size": 9}):
        return DRAWN[part](measured)


def _panels(count: int, width: float = 3.6) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width * count, 3.2), layout="constrained")
    axes = figure.subplots(1, count, squeeze=False)[0]
    for one in axes:
        one.set_axisbelow(True)
    return figure, list(axes)


def _band(axes: Axes, at: Sequence[float], found: Measured, label: str, **look: Any) -> None:
    """Draw the median with the range of its draws."""
    axes.loglog(at, found["median"], marker="o", markersize=3, label=label, **look)
    axes.fill_between(at, found["lowest"], found["highest"], color=look["color"], alpha=0.12)


def _legend(axes: Axes, **where: Any) -> None:
    axes.legend(frameon=False, fontsize=7, **where)


def _power(axes: Axes, at: Sequence[float], first: float, power: float, label: str) -> None:
    line = [first * (x / at[0]) ** power for x in at]
    axes.loglog(at, line, color=GREY, linewidth=1, label=label)


def theorem1(measured: Measured) -> Figure:
    """Draw the squared error against I, a panel per system."""
    systems = list(dict.fromkeys(one["system"] for one in measured["series"]))
    figure, panels = _panels(len(systems))
    for name, axes in zip(systems, panels, strict=True):
        own = [one for one in measured["series"] if one["system"] == name]
        for one in own:
            said, dash = FORMS[one["form"]]
            label = f"{one['compressor']}, {said}"
            _band(axes, one["iterations"], one, label, color=LOOKS[one["compressor"]], ls=dash)
        first = own[0]
        _power(axes, first["iterations"], first["median"][0], -1.0, "the theorem's slope, −1")
        axes.set(title=f"Theorem 1: {name}", xlabel="Iterations I", ylim=(1e-7, 1e3))
        axes.set_xticks(first["iterations"], [str(n) for n in first["iterations"]], minor=False)
        axes.set_xticks([], minor=True)
    panels[0].set_ylabel("‖v_I − v*‖² / ‖v*‖²")
    _legend(panels[-1])
    return figure


def theorem2(measured: Measured) -> Figure:
    """Draw the error against r_1, with the bound and the floor."""
    figure, panels = _panels(len(measured["series"]))
    for one, axes in zip(measured["series"], panels, strict=True):
        at = one["r1"]
        _band(axes, at, one, "S₁ᵀω̂ of Algorithm 3", color=COLOURS["non-iter"])
        axes.loglog(at, one["bound"], color=GREY, label="what the proof allows")
        floor = [(r, f) for r, f in zip(at, one["floor"], strict=True) if f > 1e-6]
        axes.loglog(*zip(*floor, strict=True), color=INK, ls=":", label="best in span S₁ᵀ")
        axes.set(title=f"Theorem 2: {one['system']}", xlabel="r₁ (r₂ = r₁²)")
        axes.set_xticks(at, [str(r) for r in at])
        axes.set_xticks([], minor=True)
    panels[0].set_ylabel("‖v − v*‖ / ‖v*‖")
    _legend(panels[0])
    return figure


def theorem3(measured: Measured) -> Figure:
    """Draw the mean squared hypergradient against K."""
    figure, (axes,) = _panels(1, 5.0)
    for one, colour in zip(measured["series"], CYCLE, strict=False):
        fell = one["slope"]
        label = f"{one['variant']}: K^{fell['mean']:.2f} ± {fell['deviation']:.2f}"
        _band(axes, one["rounds"], one, label, color=colour)
    first = measured["series"][0]
    axes.loglog(first["rounds"], first["bound"], color=GREY, label="32 L_h (h(x₀) − h*) / √K")
    axes.set(title="Theorem 3", xlabel="Rounds K", ylabel="mean ‖∇h(x_k)‖² / ‖∇h(x₀)‖²")
    axes.set_xticks(first["rounds"], [str(n) for n in first["rounds"]])
    axes.set_xticks([], minor=True)
    axes.set_ylim(top=8 * max(first["bound"]))  # room for the legend
    _legend(axes, loc="upper right")
    return figure


def heavy_hitters(measured: Measured) -> Figure:
    """Draw the share of draws in which all are found, and the numbers needed against d."""
    figure, (left, right) = _panels(2)
    for hashed, dash, marker in zip(measured["series"], ("-", "--"), "os", strict=False):
        for length, found, colour in zip(
            hashed["length"], hashed["found"], (*CYCLE, GREY), strict=False
        ):
            label = f"d = {length:,}" if dash == "-" else None
            left.plot(hashed["numbers"], found, color=colour, ls=dash, label=label)
        known = [(d, n) for d, n in zip(hashed["length"], hashed["needed"], strict=True) if n]
        if known:
            at, needed = zip(*known, strict=True)
            right.semilogx(at, needed, color=INK, ls=dash, marker=marker, label=hashed["hash"])
    left.set(title="all heavy hitters found", xlabel="numbers sent", ylabel="share of draws")
    right.set(title="numbers for 95 %", xlabel="d", ylabel="numbers", ylim=(0, None))
    _legend(left, loc="lower right", title="dashed: each by itself")
    _legend(right, loc="lower right")
    return figure


def sparsity(measured: Measured) -> Figure:
    """Draw the shares against the rate: the small network, and the paper's at its stages."""
    stages = measured["stages"]
    figure, panels = _panels(1 + bool(stages))
    for key, (name, colour) in SPARSITY.items():
        shares = [100 * share for share in measured["small"][key]]
        panels[0].semilogx(measured["rate"], shares, color=colour, label=name)
    panels[0].set(title=f"d = {measured['small']['parameters']:,}, 60 rounds, digits")
    for stage, colour in zip(stages, CYCLE, strict=False):
        for key, dash in (("product", "--"), ("gradient_of_q", "-")):
            label = f"{SPARSITY[key][0]}, round {stage['round']}"
            shares = [100 * share for share in stage[key]]
            panels[1].semilogx(measured["rate"], shares, color=colour, ls=dash, label=label)
    if stages:
        panels[1].set(title=f"the paper's CNN, d = {stages[0]['parameters']:,}")
    for axes in panels:
        axes.set(xlabel="rate", ylim=(0, 100))
        _legend(axes)
    panels[0].set_ylabel("squared norm in d / rate entries (%)")
    return figure


def contribution(measured: Measured) -> Figure:
    """Draw the rank correlations, a point per problem."""
    figure, (axes,) = _panels(1, 5.5)
    names = list(measured["correlations"])
    for place, name in enumerate(names):
        values = measured["correlations"][name]
        axes.plot([place] * len(values), values, "o", color=COLOURS["iter-topk"], alpha=0.5)
        axes.plot([place - 0.2, place + 0.2], [sum(values) / len(values)] * 2, color=INK)
    axes.axhline(0.0, color=GREY, linewidth=1)
    axes.set_xticks(range(len(names)), [name.replace(" ", "\n", 1) for name in names])
    axes.set(title="Section 4: rank correlation with Shapley values", ylim=(-1, 1))
    axes.set_ylabel("Spearman")
    return figure


def drift(measured: Measured) -> Figure:
    """Draw the hypergradient against rounds, with the closed form where plain steps end."""
    figure, (axes,) = _panels(1, 5.0)
    counts = list(dict.fromkeys(one["local_steps"] for one in measured["series"]))
    for one in measured["series"]:
        colour, limits = CYCLE[counts.index(one["local_steps"])], sorted(one["limits"])
        way, dash = ("corrected", "--") if one["corrected"] else ("plain", "-")
        label = f"T = {one['local_steps']}, {way}"
        axes.semilogy(
            range(1, len(one["median"]) + 1), one["median"], dash, color=colour, label=label
        )
        if (limit := limits[len(limits) // 2]) > 1e-9:
            axes.axhline(limit, color=colour, linewidth=0.8, ls=":")
    axes.set(title="Client drift; dotted: closed form", xlabel="Round", ylim=(1e-6, 2))
    axes.set_ylabel("‖∇h(x_k)‖ / ‖∇h(x₀)‖")
    _legend(axes)
    return figure


DRAWN: dict[str, Callable[[Measured], Figure]] = {
    "theorem1": theorem1,
    "theorem2": theorem2,
    "theorem3": theorem3,
    "heavy-hitters": heavy_hitters,
    "sparsity": sparsity,
    "contribution": contribution,
    "drift": drift,
}
