"""The sites' own audits: estimated shares of wrong labels, the worst labels, the traffic.

`clients/<id>/audit.json` is read where it is: in simulation, or at the site itself. A server of a
real federation has none.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsift.errors import InputError
from fedsift.report.compare import Setting, Variant
from fedsift.report.runs import Run

PICTURE = re.compile(r"data:image/png;base64,[A-Za-z0-9+/=]+")
SHOWN_PICTURES = 32


@dataclass(frozen=True)
class SiteRow:
    """One site: shares are of wrong labels; `truth` is None where it is unknown."""

    site: str
    samples: int
    flagged: int
    share: float
    low: float
    high: float
    truth: float | None


@dataclass(frozen=True)
class Suspect:
    """A label that is probably wrong: its picture or its fields, and how to review it."""

    site: str
    name: str
    image: str
    fields: tuple[tuple[str, str], ...]
    label: str
    suggestion: str
    score: float
    confidence: float
    review: str


@dataclass(frozen=True)
class RunSites:
    """The audits of one run."""

    run: str
    folder: Path
    rows: tuple[SiteRow, ...]
    suspects: tuple[Suspect, ...]


def run_sites(setting: Setting) -> list[RunSites]:
    """Return the audits of a setting's runs, for the runs that have any."""
    found = [(name, run.folder, audited(run)) for name, _, run in setting.runs]
    return [RunSites(name, folder, *parts) for name, folder, parts in found if parts[0]]


def traffic(setting: Setting) -> str:
    """Compare what each method sends with FedAvg's, per round; empty where that is not known."""
    base = [v for v in setting.variants if v.method == "fedavg"]
    if len(base) != 1 or (own := _per_round(base[0])) is None:
        return ""
    ratio_texts = []
    for variant in setting.variants:
        rate = _per_round(variant)
        if variant.method in {"fedavg", "oracle"} or rate is None:
            continue
        ratios = [f"{rate[n] / own[n]:.2f}" for n in range(2)]
        ratio_texts.append(
            f"{variant.name} sends {ratios[0]} times the bytes in {ratios[1]} times the"
        )
    return (
        f"Per round, against fedavg: {' exchanges; '.join(ratio_texts)} exchanges."
        if ratio_texts
        else ""
    )


def _per_round(variant: Variant) -> tuple[float, float] | None:
    rounds = sum(run.rounds_done for run in variant.runs)
    totals = [variant.values(key) for key in ("bytes_up", "bytes_down", "exchanges")]
    if not rounds or any(len(values) != len(variant.runs) for values in totals):
        return None
    sent, exchanges = sum(totals[0]) + sum(totals[1]), sum(totals[2])
    return (sent / rounds, exchanges / rounds) if sent and exchanges else None


def audited(run: Run) -> tuple[tuple[SiteRow, ...], tuple[Suspect, ...]]:
    """Return the audits of a run's sites, and the worst labels with their pictures."""
    rows: list[SiteRow] = []
    suspects: list[tuple[float, int, Suspect]] = []  # of equal scores, each site's worst first
    paths = (run.folder / "clients").glob("*/audit.json")
    for path in sorted(paths, key=lambda p: (len(p.parent.name), p.parent.name)):
        try:
            audit = json.loads(path.read_text(encoding="utf-8"))
            rows.append(_row(path.parent.name, audit["summary"], run))
            found = _suspects(path.parent.name, audit["gallery"], run.folder)
            suspects += [(suspect.score, rank, suspect) for rank, suspect in enumerate(found)]
        except (ValueError, KeyError, TypeError) as error:
            raise _broken(path) from error
    suspects.sort(key=lambda entry: entry[:2])
    return tuple(rows), tuple(suspect for _, _, suspect in suspects[:SHOWN_PICTURES])


def _row(site: str, summary: Mapping[str, Any], run: Run) -> SiteRow:
    wrong = summary["wrong"]
    share, low, high = (float(wrong[key]) for key in ("estimate", "low", "high"))
    counts = int(summary["samples"]), int(summary["flagged"])
    return SiteRow(site, *counts, share, low, high, _truth(run, site))


def _truth(run: Run, site: str) -> float | None:
    own = run.weights[run.weights["client"] == site]
    if own.empty or own["true_label"].isna().any():
        return None
    return float((own["label"] != own["true_label"]).mean())


def _suspects(site: str, gallery: Iterable[Mapping[str, Any]], run: Path) -> Iterable[Suspect]:
    for item in gallery:
        image, fields = str(item.get("image", "")), item.get("fields", {})
        if not PICTURE.fullmatch(image):
            image = ""
        if not image and not fields:
            continue
        name = str(item.get("id", item["index"]))
        yield Suspect(
            site,
            name,
            image,
            tuple((str(key), str(value)) for key, value in fields.items()),
            str(item["given_label"]),
            str(item["predicted_label"]),
            float(item["label_score"]),
            float(item["confidence"]),
            review_command(run, site, name),
        )


def review_command(run: Path, site: str, sample: str | None = None) -> str:
    """Return the command that opens the review page, at a sample if one is given."""
    here = Path.cwd()
    folder = run.relative_to(here) if run.is_relative_to(here) else run
    command = ["fedsift", "review", str(folder), "--client", site]
    return shlex.join(command if sample is None else [*command, "--sample", sample])


def _broken(path: Path) -> InputError:
    return InputError(f"{path} is not an audit; remove it or make the run again")
