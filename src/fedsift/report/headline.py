"""What the audit says, in a sentence: how many labels are suspicious, and how many are wrong.

The sites' own audits are read where they are. A server of a real federation has only the counts
that sites share; it says where the audits are.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedsift.report.compare import Setting
from fedsift.report.runs import FIXED_WEIGHTS, Run
from fedsift.report.sites import SiteRow, audited
from fedsift.report.verdict import lead


def headline(setting: Setting) -> str:
    """Return the audit of the method that the verdict is about; empty where nothing is audited."""
    leader = lead(setting)
    if leader is None or leader.method in FIXED_WEIGHTS:
        return ""
    for run in leader.runs:
        if rows := audited(run)[0]:
            sifters = {v.name for v in setting.variants if v.method not in FIXED_WEIGHTS}
            return _counted(rows, f" ({leader.name})" if len(sifters) > 1 else "")
    finished = [run for run in leader.runs if run.finished]
    return _shared(finished[0]) if finished and finished[0].weights.empty else ""


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


def _sites(count: int) -> str:
    return "one site" if count == 1 else f"{count} sites"
