"""What a site has of a finished run: the model, and the audit of its own labels.

    <run>/model.safetensors        the final model
    <run>/clients/<id>/audit.json  a summary of the site's labels and, for images, the worst ones
    <run>/site.json                what the audit was made from, to repeat it

``fedsift audit <run>`` and ``fedsift review <run> --client <id>`` read them at the site.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from fedsift.audit import Calibration, SiteAudit, audit_site
from fedsift.errors import InputError, WireError
from fedsift.files import write_atomically, write_text
from fedsift.messages import Scalar
from fedsift.problem import FlatModel, bind
from fedsift.site.sources import class_names, load_model, load_samples, sample_names

CHUNK = 512  # samples in one pass


@dataclass(frozen=True)
class Origin:
    """Where a site's samples and model came from, as its owner gave it, and in which folder."""

    data: str = ""
    model: str = "auto"
    cwd: str = ""


@dataclass(frozen=True)
class SiteResult:
    """What an audit at a site is made from; ``model`` is the server's name for the model."""

    client: int
    origin: Origin
    model: str
    class_names: tuple[str, ...]
    calibration: Calibration

    @classmethod
    def of(
        cls, client: int, origin: Origin, closing: Mapping[str, Scalar], run: Mapping[str, Any]
    ) -> SiteResult:
        """Read the scalars of the closing message."""
        try:
            names = tuple(str(name) for name in json.loads(str(closing["class_names"])))
            calibration = Calibration.from_mapping(json.loads(str(closing["calibration"])))
        except (KeyError, ValueError, TypeError, RecursionError):
            names, calibration = (), Calibration()
        if len(names) != run["classes"]:
            raise WireError("the closing message does not name the run's classes")
        own = class_names(origin.data)  # the site's own names, if it has any
        names = own if len(own) == len(names) else names
        return cls(client, origin, run["model"], names, calibration)

    def audit(
        self,
        model: FlatModel,
        y: Tensor,
        inputs: Tensor,
        labels: Tensor,
        weights: Tensor,
        ids: Sequence[str] | None = None,
    ) -> SiteAudit:
        """Audit the site's labels with the model at y."""
        outputs = torch.cat([model(y, part) for part in torch.split(inputs, CHUNK)])
        samples = inputs, labels, weights, outputs.softmax(dim=1)
        return audit_site(self.client, *samples, self.calibration, self.class_names, ids)

    def write(self, folder: Path, model: FlatModel, y: Tensor, audit: SiteAudit) -> None:
        """Write the model and the audit into the run's folder at the site."""
        state = {n: v.contiguous().clone() for n, v in model.to_module(y).state_dict().items()}
        write_atomically(folder / "model.safetensors", lambda path: save_file(state, path))
        own = {"summary": audit.summary.to_json(), "gallery": audit.gallery()}
        text = json.dumps(own, ensure_ascii=False, indent=1)
        write_text(folder / "clients" / str(self.client) / "audit.json", text + "\n")
        write_text(folder / "site.json", json.dumps(asdict(self), ensure_ascii=False) + "\n")


@dataclass(frozen=True, eq=False)
class SiteRun:
    """A finished run at its site."""

    folder: Path
    result: SiteResult

    @property
    def clients(self) -> list[int]:
        """The site's own client, the only one."""
        return [self.result.client]

    def audit(self, client: int) -> SiteAudit:
        """Repeat the audit, with the samples from their origin."""
        if client not in self.clients:
            raise InputError(
                f"{self.folder} belongs to client {self.result.client}, not to {client}"
            )
        inputs, labels, model = self._load()
        try:
            path = self.folder / "clients" / str(client) / "weights.parquet"
            weights = pd.read_parquet(path)["weight"].to_numpy(copy=True)
        except (OSError, ValueError, KeyError) as error:
            raise InputError(
                f"{self.folder} has no weights ({error}); make the run again"
            ) from None
        if len(weights) != len(labels):
            raise InputError(
                f"{self.folder} has {len(weights)} weights for {len(labels)} samples; the data "
                "have changed, so make the run again"
            )
        samples = inputs, labels, torch.from_numpy(weights)
        ids = sample_names(self.result.origin.data)
        return self.result.audit(model, model.initial(), *samples, ids)

    def _load(self) -> tuple[Tensor, Tensor, FlatModel]:
        origin, path = self.result.origin, self.folder / "model.safetensors"
        sys.path.insert(0, origin.cwd)  # for module:function
        inputs, labels = load_samples(origin.data)
        make = load_model(origin.model, tuple(inputs.shape[1:]))
        module = make(self.result.model, len(self.result.class_names), self._seed())
        try:
            module.load_state_dict(load_file(path))
        except (OSError, SafetensorError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            raise InputError(
                f"{path} is not the model of this run ({reason}); make the run again"
            ) from None
        return inputs, labels, bind(FlatModel(module), inputs, "the site's inputs")

    def _seed(self) -> int:
        """Return the run's seed: it makes what a model does not save."""
        return int(json.loads((self.folder / "run.json").read_text(encoding="utf-8"))["seed"])


def open_site_run(folder: Path) -> SiteRun | None:
    """Open a run's folder at a site; None if the folder is not one."""
    if not (folder / "run.json").exists():
        return None
    path = folder / "site.json"
    if not path.exists():
        raise InputError(
            f"{folder} has no final model: the run goes on, or the site was away when it ended; "
            "`fedsift submit ... --resume` at the server sends it again"
        )
    kept = json.loads(path.read_text(encoding="utf-8"))
    return SiteRun(
        folder,
        SiteResult(
            kept["client"],
            Origin(**kept["origin"]),
            kept["model"],
            tuple(kept["class_names"]),
            Calibration.from_mapping(kept["calibration"]),
        ),
    )
