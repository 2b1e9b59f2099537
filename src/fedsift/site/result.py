"""What a site has of a finished run: the model, and the audit of its own labels.

    <run>/model.safetensors             the final model
    <run>/clients/<name>/weights.parquet  labels, weights, probabilities (``audit.record``)
    <run>/clients/<name>/audit.json     a summary of the site's labels and, for images, the worst
    <run>/site.json                     what the audit was made from

``fedsift audit <run>`` and ``fedsift review <run> --client <name>`` read them at the site.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from torch import Tensor

from fedsift import sealed
from fedsift.audit import (
    AnyCalibration,
    SiteAudit,
    SiteRecord,
    audit_site,
    read_calibration,
    read_record,
)
from fedsift.audit.record import path_of
from fedsift.data.corrected import correct_samples, left_out
from fedsift.data.own_file import OwnFile
from fedsift.data.samples import Content, Samples
from fedsift.data.schema import Schema
from fedsift.data.sources import ReadOptions, read
from fedsift.errors import DataError, InputError, WireError
from fedsift.files import check_seal, seal, write_text
from fedsift.messages import Scalar
from fedsift.problem import FlatModel
from fedsift.problem.own_problem import OwnProblem, load_problem


@dataclass(frozen=True)
class Origin:
    """Where a site's samples and model came from, as its owner gave it, and in which folder.

    ``labels`` are corrections of the samples' labels (``data.corrected``); empty: none. ``problem``
    names a problem of the owner's (``problem.own_problem``), which then gets ``data`` as its text.
    """

    name: str = "0"
    data: str = ""
    reading: ReadOptions = field(default_factory=ReadOptions)
    model: str = "auto"
    encoder: str = ""
    cwd: str = ""
    labels: str = ""
    problem: str = ""

    def own_problem(self) -> OwnProblem | None:
        """Return the problem that the owner names, with the text of ``data``; None: labels."""
        self._find_modules()
        return load_problem(self.problem, self.data) if self.problem else None

    def samples(self) -> Samples:
        """Read the samples."""
        self._find_modules()
        samples = read(self.data, self.reading)
        return correct_samples(samples, self.name, self.labels) if self.labels else samples

    def _find_modules(self) -> None:
        """Let ``module:function`` be found where the owner started the command."""
        if self.cwd and self.cwd not in sys.path:
            sys.path.insert(0, self.cwd)


@dataclass(frozen=True)
class SiteResult:
    """What an audit at a site is made from."""

    origin: Origin
    class_names: tuple[str, ...]
    calibration: AnyCalibration

    @classmethod
    def of(cls, origin: Origin, closing: Mapping[str, Scalar], schema: Schema) -> SiteResult:
        """Read the scalars of the closing message."""
        try:
            calibration = read_calibration(json.loads(str(closing["calibration"])))
        except (KeyError, ValueError, TypeError, RecursionError):
            raise WireError("the closing message has no calibration") from None
        return cls(origin, schema.classes, calibration)

    def audit(self, record: SiteRecord, load: Callable[[], Content]) -> SiteAudit:
        """Audit the site's labels."""
        return audit_site(record, self.calibration, self.class_names, load)

    def write(self, folder: Path, model: FlatModel, y: Tensor, audit: SiteAudit) -> None:
        """Write the model and the audit into the run's folder at the site."""
        sealed.save(folder / "model.safetensors", model.to_module(y).state_dict())
        audit.record.write(folder)
        audit.write(folder)
        for path in (
            path_of(folder, audit.site),
            path_of(folder, audit.site).parent / "audit.json",
        ):
            path.chmod(0o600)  # labels and samples
        kept = {**asdict(self), "calibration": self.calibration.to_json()}
        write_text(folder / "site.json", json.dumps(kept, ensure_ascii=False) + "\n")
        made = ("weights.parquet", "audit.json")
        seal(
            folder,
            ["model.safetensors", "site.json", *(f"clients/{audit.site}/{name}" for name in made)],
        )


@dataclass(frozen=True, eq=False)
class SiteRun:
    """A finished run at its site."""

    folder: Path
    result: SiteResult

    @property
    def sites(self) -> list[str]:
        """The site's own name, the only one."""
        return [self.result.origin.name]

    def audit(self, site: str) -> SiteAudit:
        """Repeat the audit."""
        if site not in self.sites:
            raise InputError(f"{self.folder} belongs to site {self.sites[0]}, not to {site}")
        record = read_record(self.folder, site)
        return self.result.audit(record, lambda: self._content(record))

    def own_file(self, site: str) -> OwnFile | None:  # noqa: ARG002 - there is one site only
        """Return where the site's samples are, if they are in a file."""
        origin = self.result.origin
        return OwnFile(origin.data, origin.reading) if Path(origin.data).exists() else None

    def earlier(self, site: str) -> pd.DataFrame:
        """Return what earlier corrections left out."""
        labels = self.result.origin.labels
        return left_out(labels, site) if labels else pd.DataFrame()

    def _content(self, record: SiteRecord) -> Content:
        samples = self.result.origin.samples()
        if len(samples) != len(record):
            raise DataError(
                f"{samples.where} has {len(samples)} samples and had {len(record)} in "
                f"{self.folder}; the data have changed, so make the run again"
            )
        return samples.content


def read_options(kept: Mapping[str, Any]) -> ReadOptions:
    """Make options from a JSON object, which has lists for tuples."""
    given: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in kept.items()}
    return ReadOptions(**given)


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
    check_seal(folder)
    kept = json.loads(path.read_text(encoding="utf-8"))
    reading = kept["origin"].pop("reading")
    return SiteRun(
        folder,
        SiteResult(
            Origin(reading=read_options(reading), **kept["origin"]),
            tuple(kept["class_names"]),
            read_calibration(kept["calibration"]),
        ),
    )
