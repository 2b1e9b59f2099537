"""Write the tables of docs/reproduction.md from the files in results/.

python docs/dev/make_reproduction.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedsift.experiment.paper_grid import TERMS
from fedsift.report.paper_figures import FIG1_RATE, LAYOUTS
from fedsift.report.paper_results import load_curves, markdown, over_seeds, table
from fedsift.report.theory_figures import read_theory, theory_table

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "reproduction"
CALIBRATION = ROOT / "results" / "calibration.json"
STEPS = ROOT / "results" / "paper-steps"
LONGER = ROOT / "results" / "longer"
PAGE = "docs/reproduction.md"
MARK = re.compile(r"<!-- reproduction: (\w+) -->\n(?:\n?(?:\||No runs yet).*\n)*")


def figure(name: str) -> str:
    """Return the table of a figure, as far as its runs are there."""
    found = load_curves(RESULTS)
    curves = [c for terms in TERMS for c in LAYOUTS[name].select(found, terms)]
    return markdown(*table(curves)) if curves else "No runs yet.\n"


def detection() -> str:
    """Return the F1 of all that finds wrong labels, central references included."""
    audits, found = _read(CALIBRATION), dict[tuple[str, str, str], list[tuple[int, float]]]()
    for curve in load_curves(RESULTS):
        if curve.rate not in (None, FIG1_RATE):
            continue
        for run in curve.runs:
            said = {f"weights of `{curve.method}`": run["weights_f1"]}
            if curve.method == "single-loop":  # the central reference has no curve: it goes along
                name = f"{curve.dataset}-{curve.split}-{{}}s{run['seed']}"
                audit = audits.get(name.format("single-loop-"), {})
                said["audit after `single-loop`"] = audit.get("f1")
                central = _read(RESULTS / f"cleanlab-{name.format('')}.json").get("found", {})
                for way, row in central.items():
                    said[f"all data in one place: {CENTRAL[way]}"] = row["f1"]
            for who, f1 in said.items():
                if f1 is not None:
                    key = (curve.dataset, curve.split, who)
                    found.setdefault(key, []).append((run["seed"], f1))
    rows = [
        [*key, ", ".join(str(seed) for seed, _ in runs), over_seeds([f1 for _, f1 in runs], ".3f")]
        for key, runs in found.items()
    ]
    return markdown(["dataset", "split", "who", "seeds", "F1"], rows) if rows else "No runs yet.\n"


CENTRAL = {
    "prune_by_noise_rate": "cleanlab, its default",
    "both": "cleanlab, `both`",
    "low_normalized_margin": "cleanlab, `low_normalized_margin`",
    "disagreement": "cross-validated disagreement",
}


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


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


def longer() -> str:
    """Return accuracy by round of the runs that go on after the figures' last round."""
    curves, rounds = load_curves(LONGER), range(30, 151, 30)
    if not curves:
        return "No runs yet.\n"
    rows = []
    for curve in curves:
        seen = curve.spread("test_accuracy")["mean"]
        shares = (f"{seen[k]:.3f}" if k in seen else "–" for k in rounds)
        rows.append([curve.dataset, curve.split, f"`{curve.method}`", *shares])
    return markdown(["dataset", "split", "method", *(f"round {k}" for k in rounds)], rows)


TABLES: dict[str, Callable[[], str]] = {
    **{name: (lambda name=name: figure(name)) for name in LAYOUTS},  # type: ignore[misc]
    "detection": detection,
    "theory": theory,
    "steps": steps,
    "longer": longer,
}


def fill(text: str) -> str:
    """Put every table where its mark is."""
    return MARK.sub(lambda m: f"<!-- reproduction: {m[1]} -->\n\n{TABLES[m[1]]()}", text)


if __name__ == "__main__":
    page = ROOT / PAGE
    page.write_text(fill(page.read_text(encoding="utf-8")), encoding="utf-8")
