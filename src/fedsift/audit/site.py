"""The audit of one site: its table, its summary, and the samples that they are about."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedsift.audit.issues import issue_table, label_posterior
from fedsift.audit.noise_calibration import AnyCalibration
from fedsift.audit.record import SiteRecord
from fedsift.audit.summary import SiteSummary, summarise
from fedsift.data.images import as_uri
from fedsift.data.samples import Content
from fedsift.files import write_text

GALLERY, SHOWN_FIELDS, SHOWN_TEXT = 24, 12, 300  # samples; fields of one; characters of a field


@dataclass(frozen=True, eq=False)
class SiteAudit:
    """What is known of a site's labels; only the site itself may see it.

    ``right`` is the probability that a label is right, of every sample in order; the table shows
    it within what is known. ``load`` reads the samples themselves, which only pictures and raw
    values need.
    """

    record: SiteRecord
    class_names: tuple[str, ...]
    table: pd.DataFrame
    summary: SiteSummary
    right: npt.NDArray[np.float64]
    load: Callable[[], Content]

    @property
    def site(self) -> str:
        """The site's name."""
        return self.record.site

    @cached_property
    def content(self) -> Content:
        """The samples, read when they are first asked for."""
        return self.load()

    def gallery(self, count: int = GALLERY) -> list[dict[str, Any]]:
        """Return the worst labels with what a person sees of the samples: a picture, or fields."""
        worst = self.table[self.table["is_label_issue"]].head(count)
        columns = ("index", "id", "given_label", "predicted_label", "label_score", "confidence")
        rows = zip(*(worst[name].tolist() for name in columns), strict=True)
        return [{**dict(zip(columns, row, strict=True)), **self._seen(row[0])} for row in rows]

    def _seen(self, index: int) -> dict[str, Any]:
        if (picture := self.content.picture(index)) is not None:
            return {"image": as_uri(picture)}
        fields = list(self.content.fields(index).items())[:SHOWN_FIELDS]
        return {"fields": {n: "" if v is None else str(v)[:SHOWN_TEXT] for n, v in fields}}

    def write(self, folder: Path) -> None:
        """Write the site's own file into the folder of a run."""
        own = {"summary": self.summary.to_json(), "gallery": self.gallery()}
        text = json.dumps(own, ensure_ascii=False, indent=1)
        write_text(folder / "clients" / self.site / "audit.json", text + "\n")


def audit_site(
    record: SiteRecord,
    calibration: AnyCalibration,
    class_names: Sequence[str],
    load: Callable[[], Content],
) -> SiteAudit:
    """Audit a site."""
    belief = label_posterior(record, calibration)
    table = issue_table(record, belief, class_names)
    summary = summarise(record.labels, record.weights, belief, class_names)
    return SiteAudit(record, tuple(class_names), table, summary, belief.order, load)
