"""A checkpoint: all state of a run in one safetensors file, so that it is whole or not there.

Tensors: ``server/*`` and ``client/<id>/*``. The header's metadata is JSON: the next round, the
scalars of the state, the traffic, a fingerprint of the configuration. A resumed run draws the same
random numbers as an uninterrupted one, because every generator is derived from the round.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fedsift.algorithms import ServerState
from fedsift.client import SiteState
from fedsift.errors import InputError
from fedsift.experiment.config import KEYS, Config
from fedsift.files import write_atomically
from fedsift.hypergradient import SolverState
from fedsift.messages import Traffic

KEEP = 2
MAY_CHANGE = ("rounds", "device", "eval_every", "checkpoint_every")  # how long and where
_SERVER = ("y", "x", "v", "memory")
_CLIENT = ("x", "average", "memory")  # y is sent anew in every round


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands after ``next_round`` rounds."""

    next_round: int
    state: ServerState
    clients: Mapping[int, SiteState]
    traffic: Traffic
    seconds: float


def save(folder: Path, config: Config, point: Checkpoint) -> Path:
    """Write ``round-<n>.safetensors`` and drop all but the newest files."""
    solver = point.state.solver
    tensors = {
        f"server/{name}": value
        for name, value in zip(
            _SERVER, (point.state.y, point.state.x, solver.v, solver.memory), strict=True
        )
        if value is not None
    }
    for client, site in point.clients.items():
        for name in _CLIENT:
            value = getattr(site, name)
            if value is not None:
                tensors[f"client/{client}/{name}"] = value
    meta = {
        "next_round": point.next_round,
        "solver": {
            "fresh": solver.fresh,
            "step_scale": solver.step_scale,
            "resets": solver.resets,
        },
        "traffic": vars(point.traffic),
        "seconds": point.seconds,
        "fingerprint": fingerprint(config),
    }
    unshared = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    path = folder / f"round-{point.next_round:06d}.safetensors"
    metadata = {"fedsift": json.dumps(meta)}
    write_atomically(path, lambda target: save_file(unshared, target, metadata=metadata))
    for old in sorted(folder.glob("round-*.safetensors"))[:-KEEP]:
        old.unlink()
    return path


def load_latest(folder: Path, config: Config, device: Any = "cpu") -> Checkpoint | None:
    """Return the newest checkpoint; None if there is none."""
    paths = sorted(folder.glob("round-*.safetensors"))
    return _load(paths[-1], config, device) if paths else None


def fingerprint(config: Config) -> str:
    """Hash what a resumed run must share with the run it continues."""
    kept = {name: getattr(config, name) for name in KEYS if name not in MAY_CHANGE}
    return hashlib.sha256(json.dumps(kept).encode()).hexdigest()


def _load(path: Path, config: Config, device: Any) -> Checkpoint:
    try:
        with safe_open(path, framework="pt", device=str(device)) as file:
            meta = json.loads((file.metadata() or {})["fedsift"])
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise InputError(f"{path} is not a fedsift checkpoint ({error}); remove it") from None
    if meta["fingerprint"] != fingerprint(config):
        raise InputError(
            f"{path} was made with another configuration; resume with the one in config.toml, or "
            "choose another folder with --out"
        )
    server = {name: tensors.get(f"server/{name}") for name in _SERVER}
    if server["y"] is None:
        raise InputError(f"{path} has no model; remove it")
    solver = SolverState(v=server["v"], memory=server["memory"], **meta["solver"])
    ids = sorted({int(name.split("/")[1]) for name in tensors if name.startswith("client/")})
    clients = {i: SiteState(**{n: tensors.get(f"client/{i}/{n}") for n in _CLIENT}) for i in ids}
    return Checkpoint(
        next_round=meta["next_round"],
        state=ServerState(server["y"], server["x"], solver),
        clients=clients,
        traffic=Traffic(**meta["traffic"]),
        seconds=meta["seconds"],
    )
