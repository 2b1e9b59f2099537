"""What the review page shows of a site, and what it exports: corrected labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fedsift.audit.review.decisions import Decisions
from fedsift.audit.site import SiteAudit
from fedsift.data.images import is_image, png
from fedsift.files import write_atomically
from fedsift.problem.inputs import Inputs, sample

SHOWN_FIELDS = 200


@dataclass(frozen=True, eq=False)
class ReviewSamples:
    """The samples of a site in the order of suspicion."""

    client: int
    inputs: Inputs
    class_names: tuple[str, ...]
    table: pd.DataFrame
    field_names: tuple[str, ...] | None = None

    @classmethod
    def of(cls, audit: SiteAudit, field_names: Sequence[str] | None = None) -> ReviewSamples:
        """Make them from an audit."""
        names = None if field_names is None else tuple(field_names)
        return cls(audit.client, audit.inputs, audit.class_names, audit.table, names)

    @property
    def are_images(self) -> bool:
        """Whether a sample can be drawn."""
        return is_image(self.inputs)

    def picture(self, index: int) -> bytes:
        """Draw a sample as PNG."""
        return png(sample(self.inputs, index))

    def fields(self, index: int) -> list[tuple[str, str]]:
        """Return the first fields of a sample by name."""
        values = sample(self.inputs, index).flatten()[:SHOWN_FIELDS].tolist()
        names = self.field_names or tuple(f"field {n}" for n in range(len(values)))
        return [(name, f"{value:.6g}") for name, value in zip(names, values, strict=False)]

    def columns(self) -> dict[str, list[Any]]:
        """Return the table by column, classes as numbers: a small message for many samples."""
        number = {name: n for n, name in enumerate(self.class_names)}
        table = self.table
        columns: dict[str, list[Any]] = {
            "index": table["index"].tolist(),
            "label": [number[name] for name in table["label"]],
            "suggested": [number[name] for name in table["suggested_label"]],
        }
        for name in ("weight", "score", "confidence"):
            columns[name] = [round(float(v), 4) for v in table[name]]
        if "id" in table:
            columns["id"] = [str(v) for v in table["id"]]
        return columns


def corrected_labels(samples: ReviewSamples, decisions: Decisions) -> pd.DataFrame:
    """Return every sample with the label it has now; undecided ones keep theirs."""
    number = {name: n for n, name in enumerate(samples.class_names)}
    table = samples.table.sort_values("index", ignore_index=True)
    states = [decisions.of(int(index)) for index in table["index"]]
    given = [number[name] for name in table["label"]]
    new = [old if s.label is None else s.label for s, old in zip(states, given, strict=True)]
    out = pd.DataFrame({"client": samples.client, "index": table["index"]})
    if "id" in table:
        out["id"] = table["id"]
    out["given_label"] = table["label"]
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
