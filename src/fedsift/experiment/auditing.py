"""Audit the sites of a run: right after it, or later from its folder.

    summary.json                 `calibration`; `sites`, counts only, where `share_summary` is set
    clients/<id>/audit.json      the site's own: summary and, for images, its worst labels

A run folder does not hold samples: they are loaded again as `config.toml` says.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from fedsift.audit import Calibration, SiteAudit, audit_site
from fedsift.data import FederatedData, ServerData
from fedsift.errors import InputError
from fedsift.experiment.config import from_mapping, read_toml
from fedsift.experiment.metrics import predict
from fedsift.experiment.setup import Setup, load_data
from fedsift.files import write_text
from fedsift.problem import FlatModel, bind
from fedsift.problem.networks import build_model
from fedsift.site.result import SiteRun, open_site_run


def calibrate(setup: Setup, y: Tensor) -> Calibration:
    """Fit the calibration of the model on its clean validation set."""
    inputs, labels = setup.data.validation
    probabilities = predict(setup.model, y, inputs).cpu().double()
    return Calibration.fit(probabilities.numpy(), labels.numpy())


def audit_clients(setup: Setup, y: Tensor) -> tuple[Calibration, list[SiteAudit]]:
    """Audit every client whose weights are in this process."""
    calibration = calibrate(setup, y)
    clients = setup.federation.sizes if setup.sees_weights else ()
    return calibration, [audit_client(setup, y, m, calibration) for m in clients]


def audit_client(
    setup: Setup,
    y: Tensor,
    client: int,
    calibration: Calibration,
    ids: Sequence[Any] | None = None,
) -> SiteAudit:
    """Audit one client of a run that is still in memory."""
    return _audit(setup.data, setup.model, y, client, setup.weights(client), calibration, ids)


def write_audits(setup: Setup, y: Tensor, folder: Path) -> dict[str, Any]:
    """Write every site's own file; return what goes into ``summary.json``."""
    calibration, audits = audit_clients(setup, y)
    for audit in audits:
        own = {"summary": audit.summary.to_json(), "gallery": audit.gallery()}
        text = json.dumps(own, ensure_ascii=False, indent=1)
        write_text(folder / "clients" / str(audit.client) / "audit.json", text + "\n")
    shared = {str(audit.client): audit.summary.shared() for audit in audits}
    counts = {"sites": shared} if setup.config.share_summary and shared else {}
    return {"calibration": calibration.to_json(), **counts}


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A run folder with its data and its trained model."""

    folder: Path
    data: FederatedData
    model: FlatModel
    calibration: Calibration

    @property
    def clients(self) -> list[int]:
        """The clients that have weights."""
        found = (self.folder / "clients").glob("*/weights.parquet")
        return sorted(int(p.parent.name) for p in found if p.parent.name.isdecimal())

    def audit(self, client: int) -> SiteAudit:
        """Audit one client."""
        if client not in self.clients or client >= len(self.data.clients):
            known = ", ".join(map(str, self.clients)) or "none: its method learns no weights"
            raise InputError(f"{self.folder} has no client {client}; it has {known}")
        weights = _read_weights(self.folder / "clients" / str(client) / "weights.parquet")
        if len(weights) != len(self.data.clients[client]):
            raise InputError(
                f"client {client} of {self.folder} has {len(weights)} weights for "
                f"{len(self.data.clients[client])} samples; the data have changed, so "
                "make the run again"
            )
        y = self.model.initial()
        ids = self.data.clients[client].ids.tolist()
        return _audit(self.data, self.model, y, client, weights, self.calibration, ids)


def open_audit(folder: Path) -> FinishedRun | SiteRun:
    """Load a finished run, or what a site has of one."""
    return open_site_run(folder) or open_run(folder)


def open_run(folder: Path) -> FinishedRun:
    """Load a finished run."""
    config_path, summary = folder / "config.toml", _read_summary(folder / "summary.json")
    config = from_mapping(read_toml(config_path), str(config_path)).resolve()
    data = load_data(config)
    module = build_model(config.model, data.shape, data.classes, config.seed)
    try:
        module.load_state_dict(load_file(folder / "model.safetensors"))
    except (OSError, SafetensorError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"{folder / 'model.safetensors'} is not this run's model ({reason}); make the run again"
        ) from None
    flat = bind(FlatModel(module), data.validation[0], "the validation inputs")
    if (known := summary.get("calibration")) is not None:
        calibration = Calibration.from_mapping(known)
    else:  # a folder of an earlier version
        inputs, labels = data.validation
        probabilities = predict(flat, flat.initial(), inputs).double().numpy()
        calibration = Calibration.fit(probabilities, labels.numpy())
    return FinishedRun(folder, data, flat, calibration)


def _audit(
    data: FederatedData | ServerData,
    model: FlatModel,
    y: Tensor,
    client: int,
    weights: Tensor,
    calibration: Calibration,
    ids: Sequence[Any] | None,
) -> SiteAudit:
    own = data.clients[client]
    probabilities = predict(model, y, own.inputs).cpu()
    samples = own.inputs, own.labels, weights, probabilities
    return audit_site(client, *samples, calibration, data.class_names, ids)


def _read_weights(path: Path) -> Tensor:
    try:
        column = pd.read_parquet(path, columns=["weight"])["weight"]
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} cannot be read ({error}); make the run again") from None
    return torch.from_numpy(column.to_numpy(copy=True))


def _read_summary(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(f"{path.parent} is not the folder of a finished run; give one that is")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InputError(f"{path} is not valid JSON; make the run again")
    return value
