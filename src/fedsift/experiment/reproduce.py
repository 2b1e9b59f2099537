"""Make the runs of a grid, each once.

    OUT/runs/<name>/           an ordinary run folder
    OUT/results/<name>.json    its summary, its curves and its configuration: what figures need

A finished run is not made again and an unfinished one is resumed, from its last checkpoint where
its process was killed. A folder that holds another configuration is refused, so that a figure never
mixes two.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedsift.errors import InputError
from fedsift.experiment.config import Config, read_by
from fedsift.experiment.length import next_length, settled_length
from fedsift.experiment.paper_grid import PINNED, Job
from fedsift.experiment.run import Observer, execute, read_config
from fedsift.experiment.run_folder import RunFolder
from fedsift.files import write_text

SERIES = ("round", "test_accuracy", "validation_loss", "weights_f1", "residual")
IDENTITY = ("dataset", "split", "method", "rate", "seed", "rounds")
INDIFFERENT = ("rounds", "device", "checkpoint_every")  # rounds: a run may be made longer


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    rounds: int
    of: int
    finished: bool

    def __str__(self) -> str:
        if self.finished:
            return "done"
        return f"{self.rounds} of {self.of} rounds" if self.rounds else "to do"


def progress_of(job: Job, out: Path) -> Progress:
    """Return how far a run is; another configuration in its folder is an error."""
    folder, total = RunFolder(run_folder(job, out)), job.config.rounds
    if not folder.config.exists():
        return Progress(0, total, finished=False)
    old, new = read_config(folder.path), job.config.resolve()
    for name in old.values() | new.values():
        was, now = old.value(name), new.value(name)
        if was != now and name not in INDIFFERENT:
            raise InputError(
                f"{folder.path} holds a run with {name} = {was!r}, not {now!r}; choose another "
                "folder with --out"
            )
    lines = _lines(folder)
    if lines > total:
        raise InputError(
            f"{folder.path} has done {lines} rounds, not {total}; give --rounds {lines} or choose "
            "another folder with --out"
        )
    return Progress(lines, total, finished=lines == total and folder.summary.exists())


def run_once(job: Job, out: Path, observe: Observer = lambda _: None) -> Path:
    """Make or finish a run unless it is done; return its file of results."""
    if not progress_of(job, out).finished:
        folder = run_folder(job, out)
        begun = RunFolder(folder).config.exists()
        execute(job.config, folder, resume=begun, observe=observe)
    path = result_path(job, out)
    text = json.dumps(result_of(run_folder(job, out), job), indent=1) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        write_text(path, text)
    return path


def complete(job: Job, out: Path, observe: Observer = lambda _: None) -> Path:
    """Make or finish a run; one that decides how long runs are goes on until it has."""
    while True:
        path = run_once(sized(job, out), out, observe)
        if job.length_by != job.name or _settled(path) is not None:
            return path


def ready(job: Job, out: Path) -> bool:
    """Return whether it is known how long the run is, or the run is the one that decides it."""
    return job.length_by in {"", job.name} or _settled_by(job, out) is not None


def sized(job: Job, out: Path) -> Job:
    """Return the run with its number of rounds; the least that it can be while it is not known."""
    if not job.length_by:
        return job
    rounds = _settled_by(job, out)
    if rounds is None:
        one = RunFolder(out / "runs" / job.length_by)
        done = _lines(one)
        rounds = next_length(done + 1 if one.summary.exists() else done)
    return replace(job, config=job.config.replace(rounds=rounds))


def _settled_by(job: Job, out: Path) -> int | None:
    path = out / "results" / f"{job.length_by}.json"
    return _settled(path) if path.exists() else None


def _settled(path: Path) -> int | None:
    return settled_length(json.loads(path.read_text(encoding="utf-8"))["series"])


def _lines(folder: RunFolder) -> int:
    return folder.rounds.read_bytes().count(b"\n") if folder.rounds.exists() else 0


def run_folder(job: Job, out: Path) -> Path:
    """Return where a run is made."""
    return out / "runs" / job.name


def result_path(job: Job, out: Path) -> Path:
    """Return where a run's results are written."""
    return out / "results" / f"{job.name}.json"


def result_of(folder: Path, job: Job) -> dict[str, Any]:
    """Return a finished run's summary, with its variant, ``config`` and ``series`` added."""
    files, config = RunFolder(folder), read_config(folder)
    summary: dict[str, Any] = json.loads(files.summary.read_text(encoding="utf-8"))
    records = [json.loads(line) for line in files.rounds.read_text(encoding="utf-8").splitlines()]
    evaluated = [record for record in records if record.get("test_accuracy") is not None]
    series = {key: [record.get(key) for record in evaluated] for key in SERIES}
    variant = {"terms": job.terms, "preset": job.preset}
    return summary | variant | {"config": differences(config), "series": series}


def differences(config: Config) -> dict[str, Any]:
    """Return what a run is, and the keys in which it departs from the figures' own values."""
    values = config.values()
    identity = {name: values[name] for name in IDENTITY if name in values}
    usual = Config.of(**identity, **read_by(config.method, PINNED)).resolve().values()
    return identity | {name: value for name, value in values.items() if value != usual[name]}
