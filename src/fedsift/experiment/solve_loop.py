"""The loop of ``solve``: rounds until there is a reason to stop, in a folder where wanted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from fedsift.algorithms import Algorithm, Server, ServerState
from fedsift.algorithms.state import AtClients
from fedsift.experiment import checkpoint
from fedsift.experiment.checkpoint import Checkpoint
from fedsift.experiment.loop import compressed_round
from fedsift.experiment.run import Observer, versions
from fedsift.experiment.run_folder import RunFolder
from fedsift.experiment.solve_config import SolveConfig
from fedsift.federation import Rates
from fedsift.messages import Federation

SIZES = ("hypergradient_norm", "hypergradient_rms")
Solved = tuple[ServerState, list[dict[str, Any]], str]


@dataclass(frozen=True, eq=False)
class Task:
    """All that the loop needs."""

    config: SolveConfig
    algorithm: Algorithm
    federation: Federation
    server: Server
    rates: Rates
    rounds: int
    tolerance: float
    patience: int


def run(
    task: Task, start: ServerState, folder: RunFolder | None, resume: bool, tell: Observer
) -> Solved:
    """Return the last state, the records of all rounds, and why it ended."""
    if folder is None:
        return _loop(task, Checkpoint(0, start), [], tell, lambda _record, _point: None)
    with folder.held():
        point = None
        if resume:
            point = checkpoint.load_latest(folder.checkpoints, task.config, start.y.device)
        else:
            folder.check_free()
        folder.open(task.config)
        point = point or Checkpoint(0, start)
        task.federation.restore(point.snapshot)
        records = folder.keep_rounds(point.next_round)

        def keep(record: dict[str, Any], done: Checkpoint) -> None:
            folder.append(record)
            checkpoint.save(folder.checkpoints, task.config, done)

        state, records, stopped = _loop(task, point, records, tell, keep)
        tensors = {"x": state.x, "y": state.y, "v": state.solver.v}
        last = records[-1] if records else {}
        summary = {**last, "method": task.config.method, "stopped": stopped, "versions": versions()}
        kept = {name: value for name, value in tensors.items() if value is not None}
        folder.write_results(kept, [], summary)
    return state, records, stopped


def _loop(
    task: Task,
    point: Checkpoint,
    records: list[dict[str, Any]],
    tell: Observer,
    keep: Callable[[dict[str, Any], Checkpoint], None],
) -> Solved:
    """Do rounds until one of the reasons to stop; ``keep`` gets every record and its state."""
    state = point.state
    for record in records:
        tell(record)
    stopped = _stopped(task, records)
    for record, reached in _rounds(task, state, len(records)) if stopped is None else ():
        state = reached
        records.append(record)
        now = Checkpoint(len(records), state, task.federation.snapshot())
        keep(record, now)
        tell(record)
        stopped = _stopped(task, records)
        if stopped is not None:
            break
    return state, records, stopped or f"all {task.rounds} rounds were done"


def _rounds(
    task: Task, state: ServerState, first: int
) -> Iterator[tuple[dict[str, Any], ServerState]]:
    for k in range(first, task.rounds):
        before, start = task.federation.traffic, time.perf_counter()
        info, state = compressed_round(
            task.algorithm, task.federation, task.rates, task.server, state, k
        )
        seconds, traffic = time.perf_counter() - start, task.federation.traffic - before
        record: dict[str, Any] = {"round": k + 1, **_outer_loss(task.server, state)}
        record |= {
            **info.metrics,
            **vars(traffic),
            "seconds": round(seconds, 4),
            "events": list(info.events),
        }
        yield record, state


@torch.no_grad()
def _outer_loss(server: Server, state: ServerState) -> dict[str, float]:
    """Return F after the round; where it is the clients', the round itself reports it."""
    if isinstance(server.validation, AtClients):
        return {}
    x = state.y.new_zeros(0) if state.x is None else state.x
    return {"outer_loss": float(server.problem.outer_loss(x, state.y, server.validation))}


def _stopped(task: Task, records: list[dict[str, Any]]) -> str | None:
    """Return why to stop now, if there is a reason."""
    if not task.tolerance or len(records) < task.patience:
        return None
    last = records[-task.patience :]
    sizes = [next((r[name] for name in SIZES if name in r), None) for r in last]
    if any(size is None or size > task.tolerance for size in sizes):
        return None
    return (
        f"the hypergradient was at most {task.tolerance:g} in {task.patience} rounds, up to round "
        f"{len(records)}"
    )
