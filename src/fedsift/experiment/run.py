"""One run from start to end, with checkpoints: what ``fedsift run`` does."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedsift.algorithms import ServerState
from fedsift.algorithms.registry import METHODS
from fedsift.audit import SiteAudit
from fedsift.errors import InputError
from fedsift.experiment import checkpoint
from fedsift.experiment.auditing import (
    audits_of,
    calibrate,
    records_of,
    shared_counts,
    verdict,
)
from fedsift.experiment.checkpoint import Checkpoint
from fedsift.experiment.clean_watch import watch
from fedsift.experiment.config import Config, from_mapping
from fedsift.experiment.diagnosing import diagnosis_of
from fedsift.experiment.guarantee import guarantee, private_summary
from fedsift.experiment.loop import judge_of, rounds
from fedsift.experiment.notices import notices
from fedsift.experiment.run_folder import RunFolder
from fedsift.experiment.setup import Setup, from_config
from fedsift.files import read_toml

Observer = Callable[[dict[str, Any]], None]
MEASURED = (
    *("validation_accuracy", "validation_loss"),
    *("judged_accuracy", "judged_loss", "training_helped"),
    *("weights_f1", "weights_precision", "weights_recall", "weights_auc"),
)


@dataclass(frozen=True, eq=False)
class Finished:
    """What a run leaves in memory: ``summary`` and ``rounds`` are those of the run folder."""

    setup: Setup
    state: ServerState
    rounds: list[dict[str, Any]]
    audits: list[SiteAudit]
    summary: dict[str, Any]

    def model(self) -> dict[str, Tensor]:
        """Return the trained parameters by name."""
        return self.setup.model.unflatten(self.state.y)


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
    if resume:
        folder.check_run()
    with folder.held():
        if resume:
            old = read_config(out)
            _check_same(out, old, config)
            setup = build(config)
            _check_same(out, old, setup.config)  # where it had to be built to know its method
            _check_samples(out, old, setup.config)
            setup = replace(setup, choice=setup.choice or folder.read_choice(old))
            point = checkpoint.load_latest(folder.checkpoints, setup.config, setup.device)
            if point is not None and point.next_round > config.rounds:
                raise InputError(
                    f"{out} has done {point.next_round} rounds; set rounds to at least that to "
                    "resume"
                )
        else:
            folder.check_free()
            setup, point = build(config), None
        folder.open(setup.config, setup.choice)  # after the checks: bad input leaves nothing behind
        if setup.schema is not None:
            folder.write_schema(setup.schema)
        finished = _run(setup, folder, point, observe)
        folder.write_results(finished.model(), finished.audits, finished.summary)
    return finished


def train(setup: Setup, observe: Observer = lambda _: None) -> Finished:
    """Run without a folder."""
    state, records, start = setup.initial_state(), [], time.perf_counter()
    for done in rounds(setup, state, 0):
        state = done.state
        records.append(done.record)
        observe(done.record)
    return _finish(setup, state, records, time.perf_counter() - start)


def read_config(out: Path) -> Config:
    """Return the configuration of a run folder."""
    path = RunFolder(out).config
    return from_mapping(read_toml(path), str(path))


def _check_same(out: Path, old: Config, new: Config) -> None:
    """Refuse to continue a run with another configuration than it was started with.

    Of a method that is still to be chosen only the keys are compared that both have.
    """
    chosen = METHODS[new.method].choose is None
    both = {name: value for name, value in new.values().items() if name in old.values()}
    known = old.values() | new.values() if chosen else both
    later = {"digest"} if chosen else {"digest", "method"}  # known when the run is built
    for name in known:
        was, now = old.value(name), new.value(name)
        if name in later:
            continue
        if was != now and name not in checkpoint.MAY_CHANGE:
            raise InputError(
                f"{out} was run with {name} = {was!r}, not {now!r}, and cannot be resumed with it; "
                "choose another folder with --out"
            )


def _check_samples(out: Path, old: Config, new: Config) -> None:
    if old.digest != new.digest:
        raise InputError(
            f"the samples differ from those that {out} was started with, so it cannot be resumed; "
            "start a new run in another folder"
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
    judge = judge_of(setup)
    judge.strikes = folder.read_left_out()
    if setup.account is not None:
        setup.account.releases.update(folder.read_releases(resumed=point is not None))
        setup.account.keep = folder.write_releases
    try:
        for done in rounds(setup, now.state, now.next_round, judge):
            folder.append(done.record)
            if "dropped" in done.record:
                folder.write_left_out(judge.strikes)
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
    return _finish(setup, now.state, records, now.seconds)


def _finish(
    setup: Setup, state: ServerState, records: list[dict[str, Any]], seconds: float
) -> Finished:
    """Audit the sites and sum up."""
    calibration = calibrate(setup, state)
    audits = audits_of(setup, calibration, records_of(setup, state, calibration))
    watched, said = watch(setup, state)
    clean = {} if setup.clean_set is None else setup.clean_set.to_json()
    summary = {
        **summarise(setup, records, seconds),
        **verdict(audits),
        "notices": notices(
            records[-1], len(setup.server.validation), setup.config.method, setup.data.classes
        )
        + said
        + guarantee(setup),
        "calibration": calibration.to_json(),
        **_diagnosed(setup, state, records[-1]),
        "clean_set": {**clean, **watched},
        **shared_counts(setup, audits),
        **private_summary(setup),
    }
    return Finished(setup, state, records, audits, summary)


def _diagnosed(setup: Setup, state: ServerState, last: dict[str, Any]) -> dict[str, Any]:
    if not setup.config.diagnose:
        return {}
    return {"diagnosis": diagnosis_of(setup, state, last).to_json()}


def summarise(setup: Setup, records: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    """Make ``summary.json`` from the records: figures are the last round's, bytes are totals.

    ``weights_f1`` and the like are of "weight below 0.5"; ``f1`` and the like, which ``verdict``
    adds, are of what the audit flags.
    """
    config, last = setup.config, records[-1]
    accuracies = [r["test_accuracy"] for r in records if r.get("test_accuracy") is not None]
    return {
        "method": config.method,
        **_chosen(setup),
        "dataset": setup.data.name,
        "seed": config.seed,
        "rounds": len(records),
        "test_accuracy": last.get("test_accuracy"),
        "best_test_accuracy": max(accuracies, default=None),
        **{key: last.get(key) for key in MEASURED},
        "noise_rate": setup.data.noise_rate,
        **{key: sum(r[key] for r in records) for key in ("bytes_up", "bytes_down", "exchanges")},
        "seconds": round(seconds, 2),
        "hypergradient": hypergradient_summary(setup, last),
        "events": sum(len(r["events"]) for r in records),
        **_distrusted(setup, records),
        "parameters": setup.model.length,
        "clients": len(setup.federation.sizes),
        "class_names": list(setup.data.class_names),
        "input_shape": list(setup.data.shape),
        "versions": versions(),
    }


def _distrusted(setup: Setup, records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the sites whose replies were dropped or looked wrong: in how many rounds, and why."""
    found: dict[str, dict[str, Any]] = {}
    for name in ("dropped", "suspects"):
        sites: dict[str, Any] = {}
        for record in records:
            for client, why in record.get(name, {}).items():
                site = setup.site_name(int(client))
                sites[site] = {"rounds": sites.get(site, {"rounds": 0})["rounds"] + 1, "why": why}
        if sites:
            found[name] = dict(sorted(sites.items(), key=lambda item: -item[1]["rounds"]))
    return found


def _chosen(setup: Setup) -> dict[str, Any]:
    """Return who chose the method and why, where the user did not."""
    choice = setup.choice
    return {} if choice is None else {"chosen": {"by": choice.by, "why": choice.why}}


def hypergradient_summary(setup: Setup, last: dict[str, Any]) -> dict[str, Any] | None:
    """Return iterations, residual and rate of the estimator; None for methods without one."""
    if "residual" not in last:
        return None
    config = setup.config
    return {
        "iterations": config.value("iterations") or 1,
        "residual": last.get("residual"),
        "residual_by": "independent sketch",
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
