"""Audit the sites of a run: right after it, or later from its folder.

    summary.json                     `calibration`; `sites`, counts only, with `share_summary`
    clients/<site>/weights.parquet   labels, weights and probabilities (``audit.record``)
    clients/<site>/audit.json        the site's own: summary and, for images, its worst labels

The samples themselves are loaded again, as `config.toml` says, only where they are shown; those of
`fs.fit` are kept in the folder (``audit.shown``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fedsift.algorithms import OutOfFold, ServerState
from fedsift.audit import (
    AnyCalibration,
    Calibration,
    NoiseCalibration,
    SiteAudit,
    SiteRecord,
    audit_site,
    read_calibration,
    read_record,
    sites_of,
)
from fedsift.audit.shown import kept_samples
from fedsift.client.out_of_fold import judgement
from fedsift.data import FederatedData
from fedsift.data.corrected import left_out
from fedsift.data.own_file import OwnFile
from fedsift.data.samples import Content
from fedsift.data.sources import read
from fedsift.errors import DataError, InputError
from fedsift.experiment.config import Config, from_mapping
from fedsift.experiment.metrics import detection
from fedsift.experiment.own_data import reading, site_paths
from fedsift.experiment.setup import Setup, load_data
from fedsift.federation import LocalFederation
from fedsift.files import check_seal, read_toml
from fedsift.problem.inputs import take
from fedsift.problem.predict import predict
from fedsift.site.result import SiteRun, open_site_run


def calibrate(setup: Setup, state: ServerState) -> AnyCalibration:
    """Fit the calibration of the model on its clean validation set."""
    if isinstance(setup.algorithm, OutOfFold):
        return _by_noise_model(setup, setup.algorithm, state)
    inputs, labels = setup.data.validation
    if "spread" in state.own:  # the method has measured what else is a constant
        names = ("temperature", "optimism", "spread", "rate_error")
        own = {name: float(state.own[name]) for name in names}
        return Calibration.measured(labels.numpy(), setup.data.classes, **own)
    if "judges" in state.own:  # the method has trained on the others
        judges = state.own["judges"].cpu()
        inputs, labels = take(inputs, judges), labels[judges]
    probabilities = predict(setup.model, state.y, inputs).cpu().double()
    return Calibration.fit(probabilities.numpy(), labels.numpy())


def _by_noise_model(setup: Setup, algorithm: OutOfFold, state: ServerState) -> NoiseCalibration:
    judged = algorithm.judged(setup.server, state)
    return NoiseCalibration.fit(
        judged.probabilities.numpy(),
        judged.labels.numpy(),
        float(state.own["prior_accuracy"]),
        algorithm.noise(state) if algorithm.share else None,
    )


def records_of(setup: Setup, state: ServerState, calibration: AnyCalibration) -> list[SiteRecord]:
    """Return what the run leaves of every site whose weights are in this process."""
    clients = setup.federation.sizes if setup.sees_weights else ()
    return [_record(setup, state, calibration, m) for m in clients]


def _record(setup: Setup, state: ServerState, calibration: AnyCalibration, m: int) -> SiteRecord:
    own = setup.data.clients[m]
    probabilities, clean = _probabilities(setup, state, calibration, m)
    return SiteRecord(
        setup.site_name(m),
        own.labels,
        setup.weights(m),
        probabilities,
        own.sample_names,
        setup.agreement(m),
        own.true_labels,
        clean,
    )


def _probabilities(
    setup: Setup, state: ServerState, calibration: AnyCalibration, m: int
) -> tuple[Tensor, Tensor | None]:
    """Return what the audit of a site rests on: the model's probabilities, or out-of-fold ones.

    The second is by heads of the clean set, where the method has such heads.
    """
    local, algorithm = setup.federation, setup.algorithm
    if isinstance(calibration, NoiseCalibration) and isinstance(local, LocalFederation):
        assert isinstance(algorithm, OutOfFold)
        found, clean = judgement(local.clients[m], local.state(m), algorithm.closing(state))
        return found.cpu(), None if clean is None else clean.cpu()
    return predict(setup.model, state.y, setup.data.clients[m].inputs).cpu(), None


def audits_of(
    setup: Setup, calibration: AnyCalibration, records: Sequence[SiteRecord]
) -> list[SiteAudit]:
    """Audit the sites of a run that is still in memory."""
    contents = {setup.site_name(m): client for m, client in enumerate(setup.data.clients)}
    return [
        audit_site(r, calibration, setup.data.class_names, lambda r=r: contents[r.site].content)  # type: ignore[misc]
        for r in records
    ]


def verdict(audits: Sequence[SiteAudit]) -> dict[str, float | None]:
    """Compare the audits' verdict with the truth, where it is known at every site."""
    wrong: Tensor | None = None
    scores = torch.zeros(0)
    if audits:
        scores = torch.from_numpy(np.concatenate([audit.right for audit in audits]))
        pairs = [(a.record.labels, a.record.true_labels) for a in audits]
        known = [given != true for given, true in pairs if true is not None]
        wrong = torch.cat(known) if len(known) == len(audits) else None
    return detection(scores, wrong)


def shared_counts(setup: Setup, audits: Sequence[SiteAudit]) -> dict[str, Any]:
    """Return what the sites allow the server to know: counts, or nothing."""
    counts = {audit.site: audit.summary.shared() for audit in audits}
    return {"sites": counts} if setup.config.share_summary and counts else {}


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """The folder of a finished run."""

    folder: Path
    class_names: tuple[str, ...]
    calibration: AnyCalibration

    @property
    def sites(self) -> list[str]:
        """The sites that have weights."""
        return sites_of(self.folder)

    def audit(self, site: str) -> SiteAudit:
        """Audit one site."""
        if site not in self.sites:
            known = ", ".join(self.sites) or "none: its method learns no weights"
            raise InputError(f"{self.folder} has no site {site}; it has {known}")
        record = read_record(self.folder, site)
        return audit_site(record, self.calibration, self.class_names, lambda: self._content(record))

    def own_file(self, site: str) -> OwnFile | None:
        """Return where a site's samples are, if they are in a file."""
        path = site_paths(self._config).get(site, "") if self._config.sites else ""
        return OwnFile(path, reading(self._config)) if path and Path(path).exists() else None

    def earlier(self, site: str) -> pd.DataFrame:
        """Return what corrections that the run was made with left out."""
        return left_out(self._config.labels, site) if self._config.labels else pd.DataFrame()

    @cached_property
    def _config(self) -> Config:
        path = self.folder / "config.toml"
        return from_mapping(read_toml(path), str(path))

    @cached_property
    def _data(self) -> FederatedData:
        return load_data(self._config.resolve())

    def _content(self, record: SiteRecord) -> Content:
        if (kept := kept_samples(self.folder, record)) is not None:
            return kept
        config = self._config
        if config.sites and not config.labels:  # nothing but this site's file is needed
            content = read(site_paths(config)[record.site], reading(config)).content
            if len(content) != len(record):
                raise self._changed(record, len(content))
            return content
        client = dict(zip(self._data.site_names, self._data.clients, strict=True)).get(record.site)
        if client is None or len(client) != len(record):
            raise self._changed(record, 0 if client is None else len(client))
        return client.content

    def _changed(self, record: SiteRecord, count: int) -> DataError:
        return DataError(
            f"site {record.site} of {self.folder} had {len(record)} samples and now has {count}; "
            "the data have changed, so make the run again"
        )


def open_audit(folder: Path) -> FinishedRun | SiteRun:
    """Open a finished run, or what a site has of one."""
    return open_site_run(folder) or open_run(folder)


def open_run(folder: Path) -> FinishedRun:
    """Open a finished run."""
    check_seal(folder)
    summary = read_summary(folder)
    try:
        names = tuple(str(name) for name in summary["class_names"])
        calibration = read_calibration(summary["calibration"])
    except (KeyError, TypeError, AttributeError):
        raise InputError(
            f"{folder / 'summary.json'} is of an earlier version; make the run again"
        ) from None
    return FinishedRun(folder, names, calibration)


def read_summary(folder: Path) -> dict[str, Any]:
    """Return the summary of a finished run."""
    path = folder / "summary.json"
    if not path.is_file():
        raise InputError(f"{folder} is not the folder of a finished run; give one that is")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InputError(f"{path} is not valid JSON; make the run again")
    return value
