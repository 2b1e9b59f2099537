"""One run from start to end, with checkpoints: what ``fedsift run`` does."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedsift.algorithms import ServerState
from fedsift.errors import InputError
from fedsift.experiment import checkpoint
from fedsift.experiment.auditing import write_audits
from fedsift.experiment.checkpoint import Checkpoint
from fedsift.experiment.config import Config, from_mapping, read_toml
from fedsift.experiment.loop import rounds
from fedsift.experiment.run_folder import RunFolder
from fedsift.experiment.setup import Setup, from_config

Observer = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, eq=False)
class Finished:
    """What a run leaves in memory: the content of ``summary.json`` and the server's last state."""

    summary: dict[str, Any]
    state: ServerState


def execute(
    config: Config,
    out: Path,
    *,
    resume: bool = False,
    observe: Observer = lambda _: None,
    build: Callable[[Config], Setup] = from_config,
) -> Finished:
    """Run a configuration into a folder; ``build`` makes what the run needs."""
    config = config.resolve()
    folder = RunFolder(out)
    if resume and folder.config.exists():
        _check_same(out, read_config(out), config)
        setup = build(config)
        point = checkpoint.load_latest(folder.checkpoints, config, setup.device)
        if point is not None and point.next_round > config.rounds:
            raise InputError(
                f"{out} has done {point.next_round} rounds; set rounds to at least that to resume"
            )
    else:
        folder.check_free()
        setup, point = build(config), None
    folder.open(config)  # after the checks: bad input leaves nothing behind
    return _run(setup, folder, point, observe)


def read_config(out: Path) -> Config:
    """Return the configuration of a run folder."""
    path = RunFolder(out).config
    return from_mapping(read_toml(path), str(path))


def _check_same(out: Path, old: Config, new: Config) -> None:
    """Refuse to continue a run with another configuration than it was started with."""
    for name in old.values() | new.values():
        was, now = old.value(name), new.value(name)
        if was != now and name not in checkpoint.MAY_CHANGE:
            raise InputError(
                f"{out} was run with {name} = {was!r}, not {now!r}, and cannot be resumed with it; "
                "choose another folder with --out"
            )


def _run(setup: Setup, folder: RunFolder, point: Checkpoint | None, observe: Observer) -> Finished:
    config, federation = setup.config, setup.federation
    saved = None if point is None else point.next_round
    now = point or Checkpoint(0, setup.initial_state())
    federation.restore(now.snapshot)
    records = folder.keep_rounds(now.next_round)
    for record in records:
        observe(record)
    start = time.perf_counter() - now.seconds
    try:
        for done in rounds(setup, now.state, now.next_round):
            folder.append(done.record)
            records.append(done.record)
            k = done.record["round"]
            # Taken now: a round that fails midway has already changed some clients.
            snapshot = federation.snapshot()
            now = Checkpoint(k, done.state, snapshot, time.perf_counter() - start)
            if k % config.checkpoint_every == 0:
                checkpoint.save(folder.checkpoints, config, now)
                saved = k
            observe(done.record)
    finally:
        if now.next_round != saved:
            checkpoint.save(folder.checkpoints, config, now)
    summary = summarise(setup, records, now.seconds)
    summary |= write_audits(setup, now.state.y, folder.path)
    folder.write_results(setup, now.state, summary)
    return Finished(summary, now.state)


def summarise(setup: Setup, records: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    """Make ``summary.json`` from the records: figures are the last round's, bytes are totals."""
    config, last = setup.config, records[-1]
    accuracies = [r["test_accuracy"] for r in records if r.get("test_accuracy") is not None]
    return {
        "method": config.method,
        "dataset": setup.data.name,
        "seed": config.seed,
        "rounds": len(records),
        "test_accuracy": last.get("test_accuracy"),
        "best_test_accuracy": max(accuracies, default=None),
        **{key: last.get(key) for key in ("f1", "precision", "recall", "auc")},
        "validation_loss": last.get("validation_loss"),
        "noise_rate": setup.data.noise_rate,
        **{key: sum(r[key] for r in records) for key in ("bytes_up", "bytes_down", "exchanges")},
        "seconds": round(seconds, 2),
        "hypergradient": hypergradient_summary(setup, last),
        "events": sum(len(r["events"]) for r in records),
        "parameters": setup.model.length,
        "clients": len(setup.federation.sizes),
        "versions": versions(),
    }


def hypergradient_summary(setup: Setup, last: dict[str, Any]) -> dict[str, Any] | None:
    """Return iterations, residual and rate of the estimator; None for methods without one."""
    if "residual" not in last:
        return None
    config = setup.config
    return {
        "iterations": config.value("iterations") or 1,
        "residual": last.get("residual"),
        "rate": config.value("rate"),
        "curvature": config.value("curvature"),
    }


def versions() -> dict[str, str]:
    """Return what the run was made with."""
    try:
        own = version("fedsift")
    except PackageNotFoundError:
        own = "unknown"
    return {
        "fedsift": own,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
