"""Write the tables of docs/reproduction.md from the files in results/.

python docs/make_reproduction.py
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from fedsift.report.paper_figures import LAYOUTS
from fedsift.report.paper_results import load_curves, markdown, table
from fedsift.report.theory_figures import read_theory, theory_table

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "reproduction"
STEPS = ROOT / "results" / "paper-steps"
PAGE = "docs/reproduction.md"
MARK = re.compile(r"<!-- reproduction: (\w+) -->\n(?:\n?(?:\||No runs yet).*\n)*")


def figure(name: str) -> str:
    """Return the table of a figure, as far as its runs are there."""
    curves = LAYOUTS[name].select(load_curves(RESULTS))
    return markdown(*table(curves)) if curves else "No runs yet.\n"


def theory() -> str:
    """Return what was seen of the theorems."""
    return markdown(*theory_table(read_theory(RESULTS / "theory.json")))


def steps() -> str:
    """Return accuracy by round with the paper's inner step and batch, and with ours."""
    rows = []
    for folder in ("literal", "project"):
        (curve,) = load_curves(STEPS / folder)
        (run,) = curve.runs
        config, series = run["config"], run["series"]
        step = f"{config.get('inner_lr', 0.1)}, {config.get('batch_size', 64)}"
        rows.append([step, *(f"{share:.3f}" for share in series["test_accuracy"])])
    return markdown(["γ, batch", *(f"round {k}" for k in series["round"])], rows)


TABLES: dict[str, Callable[[], str]] = {
    **{name: (lambda name=name: figure(name)) for name in LAYOUTS},  # type: ignore[misc]
    "theory": theory,
    "steps": steps,
}


def fill(text: str) -> str:
    """Put every table where its mark is."""
    return MARK.sub(lambda m: f"<!-- reproduction: {m[1]} -->\n\n{TABLES[m[1]]()}", text)


if __name__ == "__main__":
    page = ROOT / PAGE
    page.write_text(fill(page.read_text(encoding="utf-8")), encoding="utf-8")
