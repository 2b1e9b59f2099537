"""Colours and dashes: Okabe and Ito's palette, a colour per method in every figure.

FedAvg is grey and the oracle has the colour of the page's text, dashed: they are what the others
are measured against. Yellow is too pale for a thin line, so it comes last.
"""

from __future__ import annotations

Dash = tuple[float, ...]

INK = "#010203"  # replaced by the colour of the page's text
GREY = "#808080"
YELLOW = "#f0e442"
COLOURS = {
    "fedavg": GREY,
    "focus": "#e69f00",
    "preprocess": "#56b4e9",
    "iter-topk": "#009e73",
    "iter-sketch": "#d55e00",
    "non-iter": "#cc79a7",
    "single-loop": "#0072b2",
    "oracle": INK,
}
DASHES: tuple[Dash, ...] = ((), (1, 1.5), (6, 1.5, 1, 1.5), (3, 1.5), (9, 2))
ORACLE_DASHES: tuple[Dash, ...] = ((4, 2), (2, 2), (8, 2), (8, 2, 2, 2), (1, 3))


def colours(methods: set[str]) -> dict[str, str]:
    """Keep each known method's colour; unknown methods take the colours that are left."""
    taken = methods | {"fedavg", "oracle"}
    pool = [colour for name, colour in reversed(COLOURS.items()) if name not in taken]
    pool.append(YELLOW)
    unknown = sorted(methods - COLOURS.keys())
    return COLOURS | {name: pool[i % len(pool)] for i, name in enumerate(unknown)}


def dash(method: str, number: int) -> Dash:
    """Return the dashes of a method's variant."""
    dashes = ORACLE_DASHES if method == "oracle" else DASHES
    return dashes[number % len(dashes)]


def css(colour: str) -> str:
    """Return a colour as CSS that follows the page's scheme, light or dark."""
    return "currentColor" if colour == INK else f"var(--c{colour[1:]}, {colour})"
