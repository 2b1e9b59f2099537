"""A queue of runs: in order of priority, by any number of processes, after any interruption.

    OUT/claims/<name>.lock     held by the process that makes the run; free once that has ended
    OUT/failed/<name>.txt      why a run failed, until it succeeds

There is no list of what is done besides the run folders: a process takes the first run that is not
finished and that no other process holds. So processes may come and go, and one that is killed
leaves a run that the next one goes on with. A run that needs the length that FedAvg's run finds
waits for it (``length.py``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from fedsift.errors import RunError
from fedsift.experiment.paper_grid import AS_PAPER, FIGURES, OF_THE_PAPER, Job
from fedsift.experiment.reproduce import Progress, progress_of, ready, sized
from fedsift.files import claim, owner, write_text

CLAIMS_OF_THE_PAPER = (*OF_THE_PAPER, "no-hessian", "fedavg", "oracle")
PAUSE = 2.0  # seconds between two looks at a run that others wait for

Make = Callable[[Job, int], None]


def ordered(jobs: Sequence[Job]) -> list[Job]:
    """Return runs in the order in which they matter for the paper's claims.

    First seeds, then the paper's methods, their control, FedAvg and the oracle before all others,
    then datasets, splits, terms, presets, and last the order in which they are given.
    """
    datasets = FIGURES["fig1"].datasets

    def place(item: tuple[int, Job]) -> tuple[int | bool | str, ...]:
        number, job = item
        config = job.config
        of_claims = config.method in CLAIMS_OF_THE_PAPER and not job.preset
        dataset = datasets.index(config.dataset) if config.dataset in datasets else len(datasets)
        other_terms = job.terms not in (None, AS_PAPER)
        return (config.seed, not of_claims, dataset, config.split, other_terms, job.preset, number)

    return [job for _, job in sorted(enumerate(jobs), key=place)]


def lock_of(job: Job, out: Path) -> Path:
    """Return the lock file of a run."""
    return out / "claims" / f"{job.name}.lock"


def failure_of(job: Job, out: Path) -> Path:
    """Return where it is written why a run failed."""
    return out / "failed" / f"{job.name}.txt"


def work(
    jobs: Sequence[Job],
    out: Path,
    make: Make,
    failed: Callable[[Job, RunError], None],
    pause: Callable[[float], None] = time.sleep,
) -> int:
    """Make the runs of a queue that nobody else makes; return how many failed here.

    ``make`` gets a run and its number in the queue. It ends when no run is left that could be made.
    """
    waiting, failures = dict(enumerate(jobs, start=1)), 0
    while waiting:
        done, error = _one(waiting, out, make)
        if done is not None:
            job = waiting.pop(done)
            if error is not None:
                failures += 1
                write_text(failure_of(job, out), f"{error}\n")
                failed(job, error)
        elif _awaited(waiting.values(), out):
            pause(PAUSE)
        else:
            break
    for job in waiting.values():
        if not ready(job, out):
            failures += 1
            failed(job, RunError(f"it waits for {job.length_by}, which has not ended"))
    return failures


def _one(waiting: dict[int, Job], out: Path, make: Make) -> tuple[int | None, RunError | None]:
    """Make the first run that can be made; return its number, and its error."""
    for number, job in waiting.items():
        if not ready(job, out):
            continue
        with claim(lock_of(job, out)) as mine:
            if not mine:
                continue
            try:
                make(job, number)
            except RunError as error:  # the others may still succeed
                return number, error
            failure_of(job, out).unlink(missing_ok=True)
            return number, None
    return None, None


def _awaited(waiting: Iterable[Job], out: Path) -> bool:
    """Return whether a run that others wait for is being made by another process."""
    first = {job.length_by for job in waiting if not ready(job, out)}
    return any(owner(out / "claims" / f"{name}.lock") is not None for name in first)


def state_of(job: Job, out: Path) -> tuple[str, Progress]:
    """Return done, running, failed, stopped or queued, and how far the run is."""
    progress = progress_of(sized(job, out), out)
    if owner(lock_of(job, out)) is not None:
        return "running", progress
    if progress.finished and ready(job, out):
        return "done", progress
    if failure_of(job, out).exists():
        return "failed", progress
    return ("stopped" if progress.rounds else "queued"), progress
