"""What the review page shows of a site, and what it exports: corrected labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fedsift.audit.review.decisions import Decisions
from fedsift.audit.site import SiteAudit
from fedsift.data.samples import Content
from fedsift.files import write_atomically


@dataclass(frozen=True, eq=False)
class ReviewSamples:
    """The samples of a site in the order of suspicion."""

    site: str
    content: Content
    class_names: tuple[str, ...]
    table: pd.DataFrame

    @classmethod
    def of(cls, audit: SiteAudit) -> ReviewSamples:
        """Make them from an audit."""
        return cls(audit.site, audit.content, audit.class_names, audit.table)

    @property
    def are_images(self) -> bool:
        """Whether a sample can be drawn."""
        return len(self.content) > 0 and self.content.picture(0) is not None

    def picture(self, index: int) -> bytes:
        """Draw a sample as PNG."""
        return self.content.picture(index) or b""

    def fields(self, index: int) -> list[tuple[str, str]]:
        """Return the fields of a sample by name, as a person reads them."""
        return [(name, _text(value)) for name, value in self.content.fields(index).items()]

    def columns(self) -> dict[str, list[Any]]:
        """Return the table by column, classes as numbers: a small message for many samples."""
        table = self.table
        columns: dict[str, list[Any]] = {
            "index": table["index"].tolist(),
            "id": table["id"].tolist(),
            "label": self._numbers("given_label"),
            "suggested": self._numbers("predicted_label"),
        }
        for name, column in (("weight",) * 2, ("score", "label_score"), ("confidence",) * 2):
            columns[name] = [round(float(v), 4) for v in table[column]]
        return columns

    def _numbers(self, column: str) -> list[int]:
        number = {name: n for n, name in enumerate(self.class_names)}
        return [number[str(name)] for name in self.table[column]]


def corrected_labels(samples: ReviewSamples, decisions: Decisions) -> pd.DataFrame:
    """Return every sample with the label it has now; undecided ones keep theirs."""
    number = {name: n for n, name in enumerate(samples.class_names)}
    table = samples.table.sort_values("index", ignore_index=True)
    states = [decisions.of(int(index)) for index in table["index"]]
    given = [number[str(name)] for name in table["given_label"]]
    new = [old if s.label is None else s.label for s, old in zip(states, given, strict=True)]
    out = pd.DataFrame({"site": samples.site, "index": table["index"], "id": table["id"]})
    out["given_label"] = [samples.class_names[n] for n in given]
    out["label"] = [samples.class_names[n] for n in new]
    out["class"] = new
    out["unusable"] = [s.action == "unusable" for s in states]
    out["decision"] = [s.action for s in states]
    return out


def export(samples: ReviewSamples, decisions: Decisions, path: Path) -> pd.DataFrame:
    """Write the corrected labels as parquet and return them."""
    table = corrected_labels(samples, decisions)
    write_atomically(path, lambda temporary: table.to_parquet(temporary, index=False))
    return table


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
