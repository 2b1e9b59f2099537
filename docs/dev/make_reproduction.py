"""Write the tables of docs/reproduction*.md and docs/theorems.md from results/.

python docs/dev/make_reproduction.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from fedsift.experiment.length import SHORTEST
from fedsift.experiment.paper_grid import TERMS, Choice, plan
from fedsift.experiment.theory import PARTS
from fedsift.report.paper_figures import FIG1_RATE, LAYOUTS
from fedsift.report.paper_results import (
    Curve,
    load_curves,
    markdown,
    over_seeds,
    pivot,
    table,
)
from fedsift.report.theory_figures import read_theory, theory_table

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "reproduction"
CALIBRATION = ROOT / "results" / "calibration.json"
STEPS = ROOT / "results" / "paper-steps"
COSINE = ROOT / "results" / "non_iterative_cosine.json"
LONGER = ROOT / "results" / "longer"
PAGES = ("docs/reproduction.md", "docs/reproduction-tables.md", "docs/theorems.md")
THEORY = ROOT / "results" / "theory"
MARK = re.compile(r"<!-- reproduction: (\w+) -->\n(?:\n?(?:\||No runs yet).*\n)*")


def figure(name: str) -> str:
    """Return the table of a figure, as far as its runs are there."""
    curves = _curves(name, RESULTS)
    return markdown(*table(curves)) if curves else "No runs yet.\n"


def accuracy() -> str:
    """Return the test accuracy of the runs of Figure 1, a column per panel."""
    curves = _curves("fig1", RESULTS)
    return markdown(*pivot(curves, lambda c: f"{fmean(c.values('test_accuracy')):.3f}"))


def f1() -> str:
    """Return the F1 of the weights of the runs of Figure 1, a column per panel."""
    curves = [c for c in _curves("fig1", RESULTS) if c.values("weights_f1")]
    return markdown(*pivot(curves, lambda c: f"{fmean(c.values('weights_f1')):.3f}"))


def rates() -> str:
    """Return the F1 of the weights of Figures 2 and 3, a column per rate."""
    rows = []
    for name in ("fig2", "fig3"):
        found = [c for c in _curves(name, RESULTS) if c.rate is not None]
        for place in dict.fromkeys((c.dataset, c.split, c.label) for c in found):
            mine = {c.rate: c for c in found if (c.dataset, c.split, c.label) == place}
            shown = [mine[rate].values("weights_f1") if rate in mine else [] for rate in RATES]
            rows.append([*place[:2], f"`{place[2]}`", *(over_seeds(v, ".3f") for v in shown)])
    return markdown(["dataset", "split", "method", *(f"{rate:g}x" for rate in RATES)], rows)


RATES = (1.0, 10.0, 100.0, 1000.0)


def missing() -> str:
    """Return which cells of Figure 1 at full length and seed 0 are there, and which are not."""
    there = {
        (c.dataset, c.split, c.terms, c.label)
        for c in load_curves(LONGER)
        if min(c.values("rounds")) >= SHORTEST
    }
    cells: dict[tuple[str, str, str], dict[str, bool]] = {}
    for job in plan("fig1", "paper", Choice(seeds=[0])):
        label = job.config.method
        if (job.config.value("iterations") or 1) > 1:
            label += f", I = {job.config.value('iterations')}"
        place = job.config.dataset, job.config.split
        panel = (*place, job.terms or "both")
        cells.setdefault(panel, {})[label] = (*place, job.terms, label) in there
    begun = {panel: found for panel, found in cells.items() if any(found.values())}
    rows = [[*panel, _names(found, True), _names(found, False)] for panel, found in begun.items()]
    rest = {name: False for panel, found in cells.items() if panel not in begun for name in found}
    rows += [["all others", "", "", "–", _names(rest, False)]] if rest else []
    return markdown(["dataset", "split", "terms", "run", "not run"], rows)


def _names(found: dict[str, bool], there: bool) -> str:
    return ", ".join(f"`{name}`" for name, is_there in found.items() if is_there == there) or "–"


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


def theory(part: str) -> str:
    """Return what was seen of a part of the theory."""
    if not (THEORY / f"theory-{part}.json").exists():
        return "No runs yet.\n"
    return markdown(*theory_table(read_theory(THEORY, part)))


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


def cosine() -> str:
    """Return how near Algorithm 3 comes to v* in one round."""
    rows = []
    for seed, found in _read(COSINE)["seeds"].items():
        for name, row in found["rows"].items():
            shown = (f"{row[key]:.3f}" if key in row else "–" for key in COSINES)
            rows.append([name, seed, *shown])
    return markdown(["what differs", "seed", "v and v*", "best in the span", "√(r₁ / d)"], rows)


COSINES = ("cosine", "best", "random")


def longer() -> str:
    """Return accuracy by round of the runs that go on after the figures' last round."""
    curves, rounds = load_curves(LONGER), range(30, 151, 30)
    if not curves:
        return "No runs yet.\n"
    rows = []
    for curve in curves:
        seen = curve.spread("test_accuracy")["mean"]
        shares = (f"{seen[k]:.3f}" if k in seen else "–" for k in rounds)
        rows.append([curve.dataset, curve.split, curve.terms, f"`{curve.label}`", *shares])
        rows[-1].append(over_seeds(curve.values("weights_f1"), ".3f"))
    titles = [
        "dataset",
        "split",
        "terms",
        "method",
        *(f"round {k}" for k in rounds),
        "F1 of weights",
    ]
    return markdown(titles, rows)


def _curves(name: str, folder: Path) -> Sequence[Curve]:
    found = load_curves(folder)
    own = [c for terms in TERMS for c in LAYOUTS[name].select(found, terms)]
    return list(dict.fromkeys(own))


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


TABLES: dict[str, Callable[[], str]] = {
    **{name: (lambda name=name: figure(name)) for name in LAYOUTS},  # type: ignore[misc]
    "accuracy": accuracy,
    "f1": f1,
    "rates": rates,
    "missing": missing,
    "detection": detection,
    **{name.replace("-", "_"): (lambda name=name: theory(name)) for name in PARTS},  # type: ignore[misc]
    "steps": steps,
    "longer": longer,
    "cosine": cosine,
}


def fill(text: str) -> str:
    """Put every table where its mark is."""
    return MARK.sub(lambda m: f"<!-- reproduction: {m[1]} -->\n\n{TABLES[m[1]]()}", text)


if __name__ == "__main__":
    for name in PAGES:
        page = ROOT / name
        page.write_text(fill(page.read_text(encoding="utf-8")), encoding="utf-8")
