"""What the audits say, in a sentence: how many labels are suspicious, and how many are wrong.

The sites' own audits are read where they are. A server of a real federation has only the counts
that sites share; it says where the audits are.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedsift.report.compare import Setting
from fedsift.report.runs import FIXED_WEIGHTS, Run
from fedsift.report.sites import SiteRow, audited


def headline(setting: Setting) -> str:
    """Return the audits' result of the first run that has one; empty where nothing is audited."""
    sifters = [run for _, _, run in setting.runs if run.method not in FIXED_WEIGHTS]
    for run in sifters:
        if rows := audited(run)[0]:
            by = f" ({run.method})" if len(sifters) > 1 else ""
            return _counted(rows, by)
    finished = [run for run in sifters if run.finished]
    return _shared(finished[0]) if finished and not _has_weights(finished[0]) else ""


def _counted(rows: Sequence[SiteRow], by: str) -> str:
    samples, flagged = sum(row.samples for row in rows), sum(row.flagged for row in rows)
    wrong = sum(row.samples * row.share for row in rows)
    low, high = min(row.low for row in rows), max(row.high for row in rows)
    which = "interval" if len(rows) == 1 else "intervals of the sites"
    return (
        f"{flagged:,} of {samples:,} labels at {_sites(len(rows))} are probably wrong and worth a "
        f"review{by}; the audit estimates {100 * wrong / samples:.1f} % wrong labels "
        f"(95 % {which}: {100 * low:.0f} to {100 * high:.0f} %)."
    )


def _shared(run: Run) -> str:
    counts = (run.summary or {}).get("sites")
    there = "each site lists its own with `fedsift audit FOLDER/RUN`"
    if not isinstance(counts, dict) or not counts:
        return f"The audits are at the sites: {there}."
    flagged = sum(int(count["flagged"]) for count in counts.values())
    samples = sum(int(count["samples"]) for count in counts.values())
    return (
        f"{flagged:,} of {samples:,} labels at {_sites(len(counts))} are probably wrong, by the "
        f"counts that sites share; {there}."
    )


def _has_weights(run: Run) -> bool:
    return not run.weights.empty


def _sites(count: int) -> str:
    return "one site" if count == 1 else f"{count} sites"
