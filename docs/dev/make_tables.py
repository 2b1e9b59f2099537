"""Write the tables of the documents from the summaries in results/.

python docs/dev/make_tables.py
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(ROOT))
from benchmarks.bytes import rows as bytes_rows  # noqa: E402
from benchmarks.bytes import table as bytes_table  # noqa: E402
from trust_tables import TABLES as TRUST  # noqa: E402

ROWS = ROOT / "docs" / "dev" / "bench_rows.toml"
CASES = ROOT / "docs" / "dev" / "round_rows.toml"
SAID_TWICE = ("gauss_newton_repeated_over_gradient", "double_backward_over_gauss_newton_repeated")
PAGES = ("docs/results.md", "docs/benchmarks.md", "docs/guide/audit.md")
PAGES += ("docs/guide/clean-samples.md", "docs/guide/side-by-side.md")
PAGES += ("docs/guide/robustness.md", "docs/guide/privacy.md")
PAGES += ("docs/guide/reliability.md",)
PAGES += ("docs/real-noise.md", "docs/networks.md", "docs/dev/decisions.md", "docs/first-order.md")
MARK = re.compile(r"<!-- (table: )?([\w-]+) -->\n(?:\n?\|.*\n)*")
FOUND = ("f1", "precision", "recall", "auc")
TITLES = ["precision", "recall", "AUC", "MB up", "MB down", "exchanges"]


def row(summary: dict[str, Any], found: tuple[str, ...]) -> str:
    """Return one run as a row of the table."""
    cells = [_method(summary), str(summary["seed"]), str(summary["rounds"])]
    shares = [summary[key] for key in ("test_accuracy", *found)]
    cells += ["–" if share is None else f"{share:.3f}" for share in shares]
    cells += [f"{int(str(summary[k])) / 1e6:.1f}" for k in ("bytes_up", "bytes_down")]
    return "| " + " | ".join([*cells, str(summary["exchanges"])]) + " |\n"


def _method(summary: dict[str, Any]) -> str:
    by = summary.get("chosen", {}).get("by")
    return f"`{by}` (`{summary['method']}`)" if by else f"`{summary['method']}`"


def table(name: str) -> str:
    """Return the table of one folder of results; older ones have the weights' figures only."""
    paths = sorted((ROOT / "results" / name).glob("*.json"))
    summaries = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    audited = all("f1" in summary for summary in summaries)
    found = FOUND if audited else tuple(f"weights_{key}" for key in FOUND)
    titles = ["method", "seed", "rounds", "accuracy", "F1" if audited else "F1 of weights", *TITLES]
    head = f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|\n"
    return head + "".join(row(summary, found) for summary in summaries)


def defaults() -> str:
    """Return the rounds at the defaults: medians, with the range of the repeats."""
    found = json.loads((ROOT / "results" / "bench.json").read_text(encoding="utf-8"))

    def cell(key: str) -> str:
        if key not in found:
            return "–"
        median, *ends = (found[name] for name in (key, f"{key}_least", f"{key}_most"))
        return f"{median:.2f} ({ends[0]:.2f} to {ends[1]:.2f})"

    rows = []
    for case, (text, method, aim) in tomllib.loads(CASES.read_text(encoding="utf-8")).items():
        cells = (cell(f"round_{case}_{name}") for name in ("single_loop", method.replace("-", "_")))
        rows.append(f"| {text} | {' | '.join(cells)} | {method} | {aim} |\n")
    head = "| round / FedAvg's | `single-loop` | the default | which is | `single-loop`: aim |\n"
    return head + "|---|---|---|---|---|\n" + "".join(rows)


def bench() -> str:
    """Return the benchmarks as a table, in sections; keys without words of their own at the end."""
    found = json.loads((ROOT / "results" / "bench.json").read_text(encoding="utf-8"))
    shown = {k: f"{v:.3g}" if isinstance(v, float) else str(v) for k, v in found.items()}
    rows = []
    for title, section in tomllib.loads(ROWS.read_text(encoding="utf-8")).items():
        known = {key: words for key, words in section.items() if key in shown}
        rows += [f"| **{title}** | | |\n"] if known else []
        for key, (text, *aim) in known.items():
            rows.append(f"| {text} | {shown.pop(key)} | {' '.join(aim)} |\n")
    said = (*SAID_TWICE, *(key for key in shown if key.startswith("round_")))  # in `defaults`
    rest = {key: value for key, value in shown.items() if key not in said}
    rows += [f"| {key.replace('_', ' ')} | {value} | |\n" for key, value in rest.items()]
    return "| what | measured | aim |\n|---|---|---|\n" + "".join(rows)


def calibration() -> str:
    """Return how far the audit's scores and intervals hold, a row per run."""
    found = json.loads((ROOT / "results" / "calibration.json").read_text(encoding="utf-8"))
    rows = []
    for name, row in found.items():
        inside = f"{row['covered']} of {row['sites']}"
        cells = [f"`{name}`", f"{row['ece']:.3f}", inside, f"{row['width']:.3f}"]
        cells.append(f"{row['f1']:.3f}")
        rows.append(f"| {' | '.join(cells)} |\n")
    inside, sites = (sum(row[key] for row in found.values()) for key in ("covered", "sites"))
    worst = max(row["ece"] for row in found.values())
    rows.append(f"| worst error, all sites | {worst:.3f} | {inside} of {sites} | | |\n")
    titles = ["run", "calibration error", "sites inside", "width", "F1"]
    return f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|\n" + "".join(rows)


def breast_cancer() -> str:
    """Return the methods on the breast-cancer table: mean and range over the seeds."""
    rows = json.loads((ROOT / "results" / "breast_cancer.json").read_text(encoding="utf-8"))["rows"]
    out = []
    for model, method in dict.fromkeys((row["model"], row["method"]) for row in rows):
        same = [row for row in rows if (row["model"], row["method"]) == (model, method)]
        cells = [f"`{method}`", model]
        for key in ("f1", "own", "accuracy"):
            found = [row[key] for row in same if row[key] is not None]
            cells.append(_spread(found) if found else "–")
        out.append(f"| {' | '.join(cells)} |\n")
    titles = ["method", "model", "F1 of the audit", "F1 of its own rule", "accuracy"]
    return f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|\n" + "".join(out)


def _spread(found: list[float]) -> str:
    return f"{sum(found) / len(found):.3f} ({min(found):.3f} to {max(found):.3f})"


def clean_set_check() -> str:
    """Return how often the check of the clean set warns."""
    path = ROOT / "results" / "clean_set_check.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    out = []
    for clean, wrong in zip(rows[::2], rows[1::2], strict=True):
        cells = [clean["data"], str(clean["samples"]), f"{clean['said']:.1%}"]
        cells += [f"{wrong[key]:.0%}" for key in ("said", "recall", "precision")]
        out.append(f"| {' | '.join(cells)} |\n")
    titles = ["data", "samples", "warned, none wrong", "warned, a tenth wrong"]
    titles += ["of the wrong: named", "of the named: wrong"]
    return f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|\n" + "".join(out)


def clean_samples() -> str:
    """Return F1 and accuracy against the number of clean samples: means over the seeds."""
    path = ROOT / "results" / "clean_samples.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    named, out = ("posterior", "single-loop", "clean-only"), []
    for data, clean in dict.fromkeys((row["data"], row["clean"]) for row in rows):
        same = [row for row in rows if (row["data"], row["clean"]) == (data, clean)]
        shown = [data, str(clean)]
        for method in named:
            own = [row for row in same if row["method"] == method]
            shown += [f"{_mean_or_dash(own, key)}" for key in ("f1", "accuracy")]
        out.append((data != "digits", clean, f"| {' | '.join(shown)} |\n"))
    titles = ["data", "clean samples"]
    titles += [f"`{method}` {what}" for method in named for what in ("F1", "accuracy")]
    head = f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|\n"
    return head + "".join(row for *_, row in sorted(out))


def cells_of(folder: str) -> list[dict[str, Any]]:
    """Return the cells of a benchmark that writes a file per cell."""
    paths = sorted((ROOT / "results" / folder).glob("*.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def real_noise() -> str:
    """Return a row per noise, rounds and method."""
    cells = [c for c in cells_of("real_noise") if c["noise"] in NOISES]
    cells = [c for c in cells if c.get("clean", CLEAN) == CLEAN]
    kinds = sorted({(c["noise"], c["rounds"], c["method"]) for c in cells}, key=_place)
    return measured("labels", kinds, cells, ("noise", "rounds", "method"))


def networks() -> str:
    """Return a row per dataset with its split, rounds and method."""
    cells = [{**c, "data": f"{c['dataset']}, {c['split']}"} for c in cells_of("networks")]
    kinds = sorted({(c["data"], c["rounds"], c["method"]) for c in cells})
    return measured("data", kinds, cells, ("data", "rounds", "method"))


def measured(
    title: str,
    kinds: list[tuple[str, int, str]],
    cells: list[dict[str, Any]],
    names: tuple[str, ...],
) -> str:
    """Return a row per kind: means over seeds, and the accuracy's range."""
    rows = []
    for kind in kinds:
        same = [c for c in cells if tuple(c[name] for name in names) == kind]
        means = {
            k: f"{mean(c[k] for c in same):.3f}"
            for k in ("accuracy", "f1", "ece", "width")
            if same[0].get(k) is not None
        }
        spread = [c["accuracy"] for c in same]
        sites = sum(c.get("sites", 0) for c in same)
        inside = f"{sum(c['covered'] for c in same)} of {sites}" if sites else "–"
        seeds = ", ".join(str(c["seed"]) for c in same)
        shown = [kind[0], str(kind[1]), f"`{kind[2]}`", seeds]
        shown += [f"{means['accuracy']} ({min(spread):.3f} to {max(spread):.3f})"]
        shown += [means.get("f1", "–"), means.get("ece", "–"), inside, means.get("width", "–")]
        rows.append(f"| {' | '.join(shown)} |\n")
    titles = [title, "rounds", "method", "seeds", "accuracy", "F1", "calibration error"]
    titles += ["sites inside", "width"]
    return f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|\n" + "".join(rows)


COSTS = (("seconds", 1), ("bytes_up", 1e6), ("bytes_down", 1e6), ("exchanges", 1))


def methods() -> str:
    """Return a row per data and method: means over seeds, and the accuracy's range."""
    cells, rows = cells_of("methods"), []
    for data, row in dict.fromkeys((_data(c), c["row"]) for c in sorted(cells, key=_data)):
        same = [c for c in cells if (_data(c), c["row"]) == (data, row)]
        spread = [c["accuracy"] for c in same]
        shown = [data, f"`{row}`", ", ".join(str(c["seed"]) for c in same)]
        shown.append(f"{mean(spread):.3f} ({min(spread):.3f} to {max(spread):.3f})")
        shown += [_mean_or_dash(same, key) for key in ("f1", "weights_f1", "weights_auc")]
        shown += [f"{mean(c[key] for c in same) / unit:.1f}" for key, unit in COSTS]
        shown.append(_mean_or_dash(same, "residual", "{:.2g}"))
        rows.append(f"| {' | '.join(shown)} |\n")
    titles = ["data", "method", "seeds", "accuracy", "F1", "F1 of weights", "AUC of weights"]
    titles += ["seconds", "MB up", "MB down", "exchanges", "residual"]
    return f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|\n" + "".join(rows)


def ablations() -> str:
    """Return a row per method and aid that is off: means over seeds."""
    cells, rows = cells_of("ablations"), []
    for row in dict.fromkeys(c["row"] for c in sorted(cells, key=_aid)):
        shown = row.split(", ")
        shown[0] = f"`{shown[0]}`"
        for split in ("iid", "non-iid"):
            same = [c for c in cells if (c["row"], c["split"]) == (row, split)]
            keys = ("accuracy", "f1", "weights_f1", "weights_auc")
            shown.append(" / ".join(_mean_or_dash(same, key) for key in keys))
        seeds = ", ".join(str(s) for s in sorted({c["seed"] for c in cells if c["row"] == row}))
        rows.append(f"| {' | '.join([*shown, seeds])} |\n")
    titles = ["method", "aids", "iid: accuracy / F1 / F1 of weights / AUC", "non-iid", "seeds"]
    return f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|\n" + "".join(rows)


def curvature_pays() -> str:
    """Return a row per method, a column per condition: the gap that is left."""
    path = ROOT / "results" / "curvature_pays.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    conditions = list(dict.fromkeys(row["condition"] for row in rows))
    out = []
    for method in dict.fromkeys(row["method"] for row in rows):
        same = {row["condition"]: row["gap"] for row in rows if row["method"] == method}
        # Below 1e-12 it is rounding.
        shown = [f"{same[c]:.2g}" if same[c] > 1e-12 else "0" for c in conditions]
        out.append(f"| `{method}` | {' | '.join(shown)} |\n")
    titles = ["gap left", *(f"condition {c:g}" for c in conditions)]
    return f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|\n" + "".join(out)


AIDS = ("all on", "no head start", "no bootstrap", "no self-pacing", "no decay", "all off")


def _aid(cell: dict[str, Any]) -> tuple[str, int]:
    return cell["method"], AIDS.index(cell["row"].split(", ")[1])


def _data(cell: dict[str, Any]) -> str:
    return f"{cell['dataset']}, {cell['split']}, {cell['rounds']} rounds"


def _mean_or_dash(cells: list[dict[str, Any]], key: str, shape: str = "{:.3f}") -> str:
    found = [c[key] for c in cells if c.get(key) is not None]
    return shape.format(mean(found)) if found and len(found) == len(cells) else "–"


CLEAN = 500
NOISES = ("symmetric", "pair", "human_2", "human_3", "non-iid", "instance")
METHODS = (
    *("oracle", "fedavg", "clean-only", "preprocess", "disagreement", "glc", "em", "gce", "elr"),
    *("fedelc", "fedcorr", "single-loop", "out-of-fold"),
)


def _place(kind: tuple[str, int, str]) -> tuple[int, int, int]:
    return NOISES.index(kind[0]), kind[1], METHODS.index(kind[2])


def total_bytes() -> str:
    """Return a row per dataset, method and level of compression."""
    return bytes_table(bytes_rows(ROOT / "results" / "bytes"))


def step_sizes() -> str:
    """Return a row per task, method and measure: means over seeds, a column per step."""
    path = ROOT / "results" / "step_sizes.json"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    found: dict[tuple[str, str], dict[str, dict[int, dict[str, float]]]] = {}
    for key, cell in cells.items():
        task, method, step, seed = key.split()
        found.setdefault((task, method), {}).setdefault(step, {})[int(seed)] = cell
    steps = ("0.01", "0.03", "0.1", "0.3", "1.0", "auto")
    out = []
    for (task, method), columns in found.items():
        seeds = sorted(columns["auto"])  # a mean is over the seeds that auto has, or not shown
        chosen = sorted({f"{columns['auto'][s]['inner_lr']:.3g}" for s in seeds}, key=float)
        for title, measure in (("accuracy", "accuracy"), ("loss", "loss"), ("F1", "f1")):
            if any(measure in cell for cell in columns["auto"].values()):
                shown = [_mean_of(columns.get(step, {}), seeds, measure) for step in steps]
                listed = ", ".join(map(str, seeds))
                cells_ = [task, f"`{method}`", listed, title, *shown, ", ".join(chosen)]
                out.append(f"| {' | '.join(cells_)} |\n")
    titles = ["task", "method", "seeds", "mean", *steps, "found"]
    return f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|\n" + "".join(out)


def _mean_of(cells: dict[int, dict[str, float]], seeds: list[int], measure: str) -> str:
    """Return a mean; a dash where a seed is missing, a word where its run failed."""
    if any(seed not in cells for seed in seeds):
        return "–"
    if any("failed" in cells[seed] for seed in seeds):
        return "fails"
    return f"{mean(cells[seed][measure] for seed in seeds):.3f}"


def fednest() -> str:
    """Return a row per seed of FedNest's setting."""
    path = ROOT / "results" / "fednest.json"
    out = []
    for run in json.loads(path.read_text(encoding="utf-8"))["runs"]:
        cells = [str(run["seed"]), f"{run['accuracy']:.3f}", f"{run['exchanges_per_round']:.0f}"]
        cells += [f"{run[key]:.0f}" for key in ("megabytes_up", "megabytes_down")]
        out.append(f"| {' | '.join(cells)} |\n")
    titles = ["seed", "accuracy", "exchanges per round", "MB up", "MB down"]
    return f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|\n" + "".join(out)


def side_by_side() -> str:
    """Return a row per library: lines, time and error on the same problem."""
    path = ROOT / "results" / "side_by_side.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    out = []
    for name, row in rows.items():
        told = ", ".join(f"{package} {number}" for package, number in row["versions"].items())
        cells = [f"`with_{name}.py`", str(row["statements"])]
        later = row["inner_steps_of_all"]
        said = f" ({later})" if later != row["inner_steps"] else ""
        cells += [f"{row['inner_steps']}{said} / {row['products']}", f"{row['error']:.1g}"]
        times = (row[f"{key}_seconds"] for key in ("first", "total", "import"))
        cells += ["–" if time is None else f"{time:.1f}" for time in times]
        cells += ["–" if row["gap"] is None else f"{row['gap']:.3%}", told]
        out.append(f"| {' | '.join(cells)} |\n")
    titles = ["program", "lines", "inner steps / products", "error", "first", "all", "import"]
    titles += ["gap", "versions"]
    return f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|\n" + "".join(out)


def data_cleaning() -> str:
    """Return a row per method: the last point of its curves, and the steps that were chosen."""
    path = ROOT / "results" / "data_cleaning.json"
    runs = json.loads(path.read_text(encoding="utf-8"))["runs"]
    out = []
    for name in dict.fromkeys(run.split()[0] for run in runs):
        same = [run for key, run in runs.items() if key.split()[0] == name]
        last = [run["curve"][-1] for run in same]
        errors = [point["test_error"] for point in last]
        cells = [f"`{name}`", f"{mean(errors):.3f} ({min(errors):.3f} to {max(errors):.3f})"]
        cells += [f"{mean(p['validation_error'] for p in last):.3f}"]
        cells += [f"{median(point['seconds'] for point in last):.1f}"]
        cells += [f"{same[0]['step']:g}, {same[0]['ratio']:g}", str(len(same))]
        out.append(f"| {' | '.join(cells)} |\n")
    titles = ["method", "test error", "validation error", "seconds", "step, ratio", "seeds"]
    return f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|\n" + "".join(out)


def reliability() -> str:
    """Return a row per fault: how often it was tried, how often what had to come of it came."""
    kept = json.loads((ROOT / "results" / "reliability.json").read_text(encoding="utf-8"))
    out = []
    for fault, row in kept.items():
        tests = row["tests"].values()
        tried, passed = (
            sum(t["trials"] for t in tests if t["passed"] or not only) for only in (False, True)
        )
        still = [t["stood_still_s"] for t in tests if "stood_still_s" in t]
        shown = row["outcome"]
        if still:
            shown += (
                f"; stood still {min(still):.0f} to {max(still):.0f} s, median {median(still):.0f}"
            )
        commands = ", ".join(f"`{text}`" for text in sorted({t["command"] for t in tests}))
        out.append(f"| {fault} | {passed:,} of {tried:,} | {shown} | {commands} |\n")
    titles = ["fault", "held", "what had to come of it", "command"]
    return f"| {' | '.join(titles)} |\n{'|---' * len(titles)}|\n" + "".join(out)


TABLES: dict[str, Callable[[], str]] = {
    "ablations": ablations,
    "bench": bench,
    "breast-cancer": breast_cancer,
    "bytes": lambda: total_bytes() + "\n",
    "calibration": calibration,
    "clean-samples": clean_samples,
    "clean-set-check": clean_set_check,
    "curvature-pays": curvature_pays,
    "data-cleaning": data_cleaning,
    "defaults": defaults,
    "fednest": fednest,
    "methods": methods,
    "networks": networks,
    "real-noise": real_noise,
    "side-by-side": side_by_side,
    "reliability": reliability,
    "step-sizes": step_sizes,
    **TRUST,
}


def fill(text: str) -> str:
    """Put every table where its mark is: a name of the table above, or a folder of results."""

    def made(found: re.Match[str]) -> str:
        rows = table(found[2]) if found[1] else TABLES[found[2]]()
        return f"<!-- {found[1] or ''}{found[2]} -->\n\n{rows}"

    return MARK.sub(made, text)


if __name__ == "__main__":
    for page in (ROOT / name for name in PAGES):
        page.write_text(fill(page.read_text(encoding="utf-8")), encoding="utf-8")
