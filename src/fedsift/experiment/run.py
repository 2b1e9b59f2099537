"""One run from start to end, with checkpoints: what ``fedsift run`` does."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedsift.errors import FedsiftError
from fedsift.experiment import checkpoint
from fedsift.experiment.config import Config, from_mapping, read_toml
from fedsift.experiment.loop import rounds
from fedsift.experiment.run_folder import RunFolder
from fedsift.experiment.setup import Setup, from_config

Observer = Callable[[dict[str, Any]], None]


def execute(
    config: Config, out: Path, *, resume: bool = False, observe: Observer = lambda _: None
) -> dict[str, Any]:
    """Run a configuration into a folder and return the summary."""
    config = config.resolve()
    folder = RunFolder(out)
    resume = resume and folder.config.exists()
    if not resume:
        setup = from_config(config)  # before the folder: bad input leaves nothing behind
        folder.create(config)
        return _run(setup, folder, None, observe)
    setup = from_config(config)
    point = checkpoint.load_latest(
        folder.checkpoints, config, setup.server.validation.inputs.device
    )
    return _run(setup, folder, point, observe)


def read_config(out: Path) -> Config:
    """Return the configuration of a run folder."""
    path = RunFolder(out).config
    return from_mapping(read_toml(path), str(path))


def _run(
    setup: Setup, folder: RunFolder, point: checkpoint.Checkpoint | None, observe: Observer
) -> dict[str, Any]:
    config, federation = setup.config, setup.federation
    state, first, spent = setup.initial_state(), 0, 0.0
    if point is not None:
        state, first, spent = point.state, point.next_round, point.seconds
        federation.restore(point.clients, point.traffic)
    records = folder.keep_rounds(first)
    start = time.perf_counter() - spent
    for record in records:
        observe(record)

    def save(next_round: int) -> None:
        seconds = time.perf_counter() - start
        now = checkpoint.Checkpoint(
            next_round, state, federation.states, federation.traffic, seconds
        )
        checkpoint.save(folder.checkpoints, config, now)

    try:
        for done in rounds(setup, state, first):
            state = done.state
            folder.append(done.record)
            records.append(done.record)
            observe(done.record)
            k = done.record["round"]
            if k % config.checkpoint_every == 0 or k == config.rounds:
                save(k)
    except (FedsiftError, KeyboardInterrupt):
        save(len(records))
        raise
    summary = summarise(setup, records, time.perf_counter() - start)
    folder.write_results(setup, state, summary)
    return summary


def summarise(setup: Setup, records: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    """Make ``summary.json`` from the records: figures are the last round's, bytes are totals."""
    config, last = setup.config, records[-1]
    accuracies = [r["test_accuracy"] for r in records if r.get("test_accuracy") is not None]
    return {
        "method": config.method,
        "dataset": config.dataset,
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
    if not setup.learns_weights:
        return None
    config = setup.config
    return {
        "iterations": 1 if config.method == "non-iter" else config.iterations,
        "residual": last.get("residual"),
        "rate": config.rate,
        "curvature": config.curvature,
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
