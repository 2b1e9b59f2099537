"""What of a queue is done, running and queued, and how long the rest takes.

The time of a round is what rounds of these runs took on this machine: of the run itself; else the
mean over runs of its method on its dataset, of its dataset, of all.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from fedsift.experiment.paper_grid import Job
from fedsift.experiment.queue import state_of
from fedsift.experiment.reproduce import Progress, run_folder
from fedsift.experiment.run_folder import RunFolder


@dataclass(frozen=True)
class Row:
    """A run of a queue; ``seconds`` are those of a round, None where nothing was measured yet."""

    job: Job
    state: str
    progress: Progress
    seconds: float | None

    @property
    def left(self) -> float | None:
        """How long the rest takes, in seconds."""
        rest = self.progress.of - self.progress.rounds
        if self.state == "done":
            return 0.0
        return None if self.seconds is None else rest * self.seconds


def status(jobs: Sequence[Job], out: Path) -> list[Row]:
    """Return a row per run."""
    own = {job.name: _seconds(run_folder(job, out)) for job in jobs}
    rows = []
    for job in jobs:
        state, progress = state_of(job, out)
        rows.append(Row(job, state, progress, own[job.name] or _like(job, jobs, own)))
    return rows


def summary(rows: Sequence[Row]) -> str:
    """Return one line: how many runs are in which state, and the time that the rest takes."""
    counts = Counter(row.state for row in rows)
    said = [f"{counts[state]} {state}" for state in dict.fromkeys(row.state for row in rows)]
    line = f"{len(rows)} runs: {', '.join(said)}"
    left = [row.left for row in rows if row.state != "done"]
    known = [seconds for seconds in left if seconds is not None]
    if not left:
        return line
    if not known:
        return f"{line}; no round was measured yet"
    at_once = max(1, counts["running"])
    more = "" if len(known) == len(left) else f", and {len(left) - len(known)} not measured yet"
    return f"{line}; about {duration(sum(known) / at_once)} left at {at_once} side by side{more}"


def duration(seconds: float) -> str:
    """Return a time as a person says it.

    Examples:
        >>> [duration(s) for s in (20, 600, 9000)]
        ['1 min', '10 min', '2 h 30 min']
    """
    minutes = max(1, round(seconds / 60))
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _seconds(folder: Path) -> float | None:
    """Return the mean time of a run's rounds."""
    path, found = RunFolder(folder).rounds, []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            found.append(float(json.loads(line)["seconds"]))
        except (ValueError, KeyError, TypeError):  # a line that is being written
            continue
    return fmean(found) if found else None


def _like(job: Job, jobs: Sequence[Job], own: dict[str, float | None]) -> float | None:
    def same(other: Job, *keys: str) -> bool:
        return all(other.config.value(key) == job.config.value(key) for key in keys)

    for keys in (("dataset", "method", "iterations", "rate"), ("dataset", "method"), ("dataset",)):
        found = [own[other.name] for other in jobs if same(other, *keys)]
        if known := [seconds for seconds in found if seconds is not None]:
            return fmean(known)
    known = [seconds for seconds in own.values() if seconds is not None]
    return fmean(known) if known else None
