"""The tables of liars, of a wrong clean set and of differential privacy, from results/."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from benchmarks import privacy  # noqa: E402
from benchmarks.robustness import LIES  # noqa: E402

RESULTS = ROOT / "results"
RULES = ("mean", "median", "trimmed-mean", "geometric-median", "krum")
SAID = {
    "none": "none",
    "flipped": "−u",
    "x100": "100 u",
    "x-10": "−10 u",
    "random": "random",
    "stale": "the first update again and again",
    "nan": "one NaN",
    "inflated": "−u and N_m = 10^9",
}
DATASETS = {"digits-mlp": "digits", "mnist-mlp": "MNIST"}
Row = dict[str, Any]


def runs(name: str, rule: str, lie: str, liars: int) -> list[Row]:
    """Return the rows of all seeds."""
    found = json.loads((RESULTS / "robustness" / f"{name}.json").read_text(encoding="utf-8"))
    key = f" {rule} {lie} {liars} "
    return [row for run, row in sorted(found.items()) if key in f"{run} "]


def one_liar() -> str:
    """Return what one liar of ten costs with the default rule, on both datasets."""
    titles = [
        f"{title}: {what}" for title in DATASETS.values() for what in ("accuracy / F1", "named")
    ]
    lines = [f"| lie | {' | '.join(titles)} |\n", "|---" * (1 + len(titles)) + "|\n"]
    for lie in ("none", *LIES):
        cells = [SAID[lie]]
        for name in DATASETS:
            rows = runs(name, "mean", lie, int(lie != "none"))
            cells.append(_figures(rows))
            named = sum("0" in row.get("named", ()) for row in rows)
            cells.append("" if lie == "none" else f"{named} of {len(rows)}")
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)


def three_liars() -> str:
    """Return what three of ten cost per rule on digits, beside the rule without a liar."""
    lines = [f"| lie | {' | '.join(RULES)} |\n", "|---" * (1 + len(RULES)) + "|\n"]
    for lie in ("none", *LIES):
        liars = 3 * (lie != "none")
        cells = [_figures(runs("digits-mlp", rule, lie, liars)) for rule in RULES]
        lines.append(f"| {SAID[lie]} | {' | '.join(cells)} |\n")
    return "".join(lines)


def _figures(rows: list[Row]) -> str:
    done = [row for row in rows if "ended" not in row]
    if not done:
        return "–"
    ended = f" ({len(rows) - len(done)} ended)" if len(done) < len(rows) else ""
    seeds = f" ({len(done)} seeds)" if len(rows) < 3 else ""
    shown = (f"{mean(row[key] for row in done):.3f}" for key in ("accuracy", "f1"))
    return " / ".join(shown) + ended + seeds


def wrong_clean_set() -> str:
    """Return accuracy and F1 by the share of wrong clean labels; means over the seeds."""
    path = RESULTS / "robustness" / "clean_set.json"
    found: dict[str, Row] = json.loads(path.read_text(encoding="utf-8"))
    seeds = sorted({run.split()[-1] for run in found})
    lines = ["| clean labels that are wrong | seeds | all used | the default | warned |\n"]
    lines.append("|---" * 5 + "|\n")
    for share in (0.0, 0.1, 0.2, 0.4):
        names = [(f"{share} all {s}", f"{share} without suspects {s}") for s in seeds]
        pairs = [(found[a], found[b]) for a, b in names if a in found and b in found]
        both = [list(rows) for rows in zip(*pairs, strict=True)]
        warned = sum(row["warnings"] > 0 for row in both[1])
        cells = [f"{100 * share:.0f} %", str(len(both[1])), *map(_plain, both)]
        lines.append(f"| {' | '.join(cells)} | {warned} of {len(both[1])} |\n")
    return "".join(lines)


def _plain(rows: list[Row]) -> str:
    return " / ".join(f"{mean(row[key] for row in rows):.3f}" for key in ("accuracy", "f1"))


def private() -> str:
    """Return accuracy and F1 by epsilon."""
    path = RESULTS / "privacy" / "runs.json"
    return privacy.table(json.loads(path.read_text(encoding="utf-8")))


TABLES = {
    "liars-one": one_liar,
    "liars-three": three_liars,
    "wrong-clean-set": wrong_clean_set,
    "privacy": private,
}
