"""A checkpoint: all state of a run in one safetensors file, so that it is complete or absent.

Tensors: ``server/*``, ``own/*`` (the server's, of the method), ``sent/*`` (what clients have of
arrays that they keep), ``solver/*``, ``bounds/*`` (of secure sums)
and ``client/<id>/*``.
The header's metadata is JSON: the next round, the scalars of the solver, the traffic, what versions
clients have, a fingerprint of the configuration. A hash over all of it shows damage (``sealed``);
where the newest file is damaged, the one before is used. A resumed run draws the same random
numbers as an uninterrupted one, because every generator is derived from the round.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from fedsift import sealed
from fedsift.algorithms import ServerState
from fedsift.errors import InputError
from fedsift.hypergradient import SolverState
from fedsift.messages import Snapshot, Traffic

KEEP = 2
# How long, where, and what is only looked at.
MAY_CHANGE = ("rounds", "device", "eval_every", "checkpoint_every", "diagnose")


class Valued(Protocol):
    """A configuration, as far as a checkpoint cares."""

    def values(self) -> dict[str, Any]:
        """Return all values by the name of their key."""
        ...


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run after ``next_round`` rounds."""

    next_round: int
    state: ServerState
    snapshot: Snapshot = Snapshot()
    seconds: float = 0.0


def save(folder: Path, config: Valued, point: Checkpoint) -> Path:
    """Write ``round-<n>.safetensors`` and drop all but the newest files."""
    solver = vars(point.state.solver)
    values = {"server/y": point.state.y, "server/x": point.state.x}
    values |= {f"own/{name}": value for name, value in point.state.own.items()}
    values |= {f"sent/{name}": value for name, value in point.state.sent.items()}
    values |= {f"solver/{name}": value for name, value in solver.items()}
    values |= {f"bounds/{name}": value for name, value in point.snapshot.bounds.items()}
    for client, arrays in point.snapshot.clients.items():
        values |= {f"client/{client}/{name}": value for name, value in arrays.items()}
    tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    meta = {
        "next_round": point.next_round,
        "solver": {name: v for name, v in solver.items() if isinstance(v, bool | int | float)},
        "traffic": vars(point.snapshot.traffic),
        "versions": point.snapshot.versions,
        "seconds": point.seconds,
        "fingerprint": fingerprint(config),
        "rounds": _digest(_rounds(folder), point.next_round),
    }
    path = folder / f"round-{point.next_round:06d}.safetensors"
    sealed.save(path, tensors, meta)
    for old in sorted(folder.glob("round-*.safetensors"))[:-KEEP]:
        old.unlink()
    return path


def load_latest(folder: Path, config: Valued, device: Any = "cpu") -> Checkpoint | None:
    """Return the newest checkpoint that is whole; None if there is none at all."""
    damaged: list[InputError] = []
    for path in sorted(folder.glob("round-*.safetensors"), reverse=True):
        try:
            tensors, meta = sealed.load(path, "a fedsift checkpoint", str(device))
        except InputError as error:
            damaged.append(error)
            continue
        point = _point(path, config, tensors, meta)
        for reason in damaged:
            print(f"note: {reason}; going on from {path.name}", file=sys.stderr, flush=True)
        return point
    if damaged:
        raise InputError(f"{damaged[0]}; no other is left, so start a new run with another --out")
    return None


def fingerprint(config: Valued) -> str:
    """Hash what a resumed run must share with the run it continues."""
    kept = {name: v for name, v in config.values().items() if name not in MAY_CHANGE}
    return hashlib.sha256(json.dumps(kept).encode()).hexdigest()


def _point(
    path: Path, config: Valued, tensors: dict[str, Tensor], meta: dict[str, Any]
) -> Checkpoint:
    """Make a checkpoint of a file's content, which is what was written."""
    if meta["fingerprint"] != fingerprint(config):
        raise InputError(
            f"{path} was made with another configuration; resume with the one in config.toml, or "
            "choose another folder with --out"
        )
    rounds = _rounds(path.parent)
    if meta["rounds"] not in {None, _digest(rounds, meta["next_round"])} and rounds.exists():
        raise InputError(
            f"the first {meta['next_round']} lines of {rounds} are not what the run wrote; restore "
            "that file, or start a new run with another --out"
        )
    groups: dict[str, dict[str, Any]] = {}
    for key, value in tensors.items():
        group, _, name = key.rpartition("/")
        groups.setdefault(group, {})[name] = value
    solver = SolverState(**groups.pop("solver", {}), **meta["solver"])
    state = ServerState(
        **groups.pop("server"),
        solver=solver,
        own=groups.pop("own", {}),
        sent=groups.pop("sent", {}),
    )
    bounds = groups.pop("bounds", {})
    return Checkpoint(
        next_round=meta["next_round"],
        state=state,
        snapshot=Snapshot(
            {int(name.split("/")[1]): arrays for name, arrays in groups.items()},
            {int(client): known for client, known in meta["versions"].items()},
            Traffic(**meta["traffic"]),
            {name: value.cpu() for name, value in bounds.items()},
        ),
        seconds=meta["seconds"],
    )


def _rounds(folder: Path) -> Path:
    """Return where the records of the rounds are, beside the checkpoints."""
    return folder.parent / "rounds.jsonl"


def _digest(path: Path, count: int) -> str | None:
    """Hash the first lines of a file; None if it has fewer."""
    lines = path.read_bytes().splitlines(keepends=True)[:count] if path.exists() else []
    return hashlib.sha256(b"".join(lines)).hexdigest() if len(lines) == count else None
