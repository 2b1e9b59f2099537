"""A checkpoint: all state of a run in one safetensors file, so that it is complete or absent.

Tensors: ``server/*``, ``own/*`` (the server's, of the method), ``sent/*`` (what clients have of
arrays that they keep), ``solver/*``, ``bounds/*`` (of secure sums)
and ``client/<id>/*``.
The header's metadata is JSON: the next round, the scalars of the solver, the traffic, what versions
clients have, a fingerprint of the configuration. A resumed run draws the same random numbers as an
uninterrupted one, because every generator is derived from the round.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fedsift.algorithms import ServerState
from fedsift.errors import InputError
from fedsift.files import write_atomically
from fedsift.hypergradient import SolverState
from fedsift.memory import aligned
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
    unshared = {
        name: value.detach().cpu().contiguous().clone()
        for name, value in values.items()
        if isinstance(value, Tensor)
    }
    meta = {
        "next_round": point.next_round,
        "solver": {name: v for name, v in solver.items() if isinstance(v, bool | int | float)},
        "traffic": vars(point.snapshot.traffic),
        "versions": point.snapshot.versions,
        "seconds": point.seconds,
        "fingerprint": fingerprint(config),
    }
    path = folder / f"round-{point.next_round:06d}.safetensors"
    metadata = {"fedsift": json.dumps(meta)}
    write_atomically(path, lambda target: save_file(unshared, target, metadata=metadata))
    for old in sorted(folder.glob("round-*.safetensors"))[:-KEEP]:
        old.unlink()
    return path


def load_latest(folder: Path, config: Valued, device: Any = "cpu") -> Checkpoint | None:
    """Return the newest checkpoint; None if there is none."""
    paths = sorted(folder.glob("round-*.safetensors"))
    return _load(paths[-1], config, device) if paths else None


def fingerprint(config: Valued) -> str:
    """Hash what a resumed run must share with the run it continues."""
    kept = {name: v for name, v in config.values().items() if name not in MAY_CHANGE}
    return hashlib.sha256(json.dumps(kept).encode()).hexdigest()


def _load(path: Path, config: Valued, device: Any) -> Checkpoint:
    try:
        with safe_open(path, framework="pt", device=str(device)) as file:
            meta = json.loads((file.metadata() or {})["fedsift"])
            names = list(file.keys())
            tensors = {name: aligned(file.get_tensor(name)) for name in names}
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise InputError(f"{path} is not a fedsift checkpoint ({error}); remove it") from None
    if meta["fingerprint"] != fingerprint(config):
        raise InputError(
            f"{path} was made with another configuration; resume with the one in config.toml, or "
            "choose another folder with --out"
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
