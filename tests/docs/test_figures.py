"""Figures that the first pages repeat are those of the pages and files that have their commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [ROOT / "docs" / f"{name}.md" for name in ("results", "networks", "real-noise")]
SOURCES += [ROOT / "docs" / f"{name}.md" for name in ("guide/audit", "benchmarks")]
SOURCES += [ROOT / "docs" / f"{name}.md" for name in ("reproduction", "reproduction-tables")]
MEASURED = " ".join(path.read_text(encoding="utf-8") for path in SOURCES)
REPEATING = ("README.md", "docs/guide/why-not.md", "docs/guide/methods.md")


def figures(text: str) -> set[str]:
    """Return shares with three digits, of which some are written as per cent."""
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    shares = set(re.findall(r"(?<![\d.])0\.\d{3}(?!\d)", text))
    return shares | {f"0.{a}{b}" for a, b in re.findall(r"(?<![\d.])(\d\d)\.(\d) %", text)}


@pytest.mark.parametrize("page", REPEATING)
def test_a_repeated_figure_is_a_measured_one(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    own = {"0.233"} if page == "README.md" else set()  # of its example, which a test runs
    assert figures(text) - own <= figures(MEASURED)


def test_figures_are_found():
    assert figures("accuracy is 0.123, or 45.6 %, version 0.1234") == {"0.123", "0.456"}
