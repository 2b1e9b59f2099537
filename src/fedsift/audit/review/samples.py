"""What the review page shows of a site, and what it exports: corrected labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from fedsift.audit.review import pictures
from fedsift.audit.review.decisions import NONE, UNUSABLE, Decisions
from fedsift.audit.review.neighbours import Neighbours
from fedsift.audit.site import SiteAudit
from fedsift.data.samples import Arrays, Content

PROBABLE = 5  # classes that the picker offers first
TEXT = 40  # characters from which a value is text to read, not a word


@dataclass(frozen=True, eq=False)
class ReviewSamples:
    """The samples of a site in the order of suspicion; ``probabilities`` are by their index."""

    site: str
    content: Content
    class_names: tuple[str, ...]
    table: pd.DataFrame
    probabilities: np.ndarray

    @classmethod
    def of(cls, audit: SiteAudit) -> ReviewSamples:
        """Make them from an audit."""
        found = audit.record.probabilities.float().numpy()
        return cls(audit.site, audit.content, audit.class_names, audit.table, found)

    @cached_property
    def are_images(self) -> bool:
        """Whether a sample can be drawn."""
        return len(self.content) > 0 and self.content.picture(0) is not None

    @cached_property
    def given(self) -> dict[int, int]:
        """The class that each sample was given."""
        return dict(zip(self.table["index"].tolist(), self._numbers("given_label"), strict=True))

    @cached_property
    def suggested(self) -> dict[int, int]:
        """The class that the audit suggests for each sample."""
        found = self._numbers("predicted_label")
        return dict(zip(self.table["index"].tolist(), found, strict=True))

    def columns(self) -> dict[str, list[Any]]:
        """Return the table by column, classes as numbers: a small message for many samples."""
        columns: dict[str, list[Any]] = {
            "index": self.table["index"].tolist(),
            "id": self.table["id"].tolist(),
            "label": list(self.given.values()),
            "suggested": list(self.suggested.values()),
        }
        for name, column in (("weight",) * 2, ("score", "label_score"), ("confidence",) * 2):
            columns[name] = [round(float(v), 4) for v in self.table[column]]
        return columns

    def detail(self, index: int) -> dict[str, Any]:
        """Return what is shown of one sample: fields, probable classes, sure neighbours."""
        found = self.probabilities[index]
        best = np.argsort(-found, kind="stable")[:PROBABLE].tolist()
        near = self._neighbours.of(index, self.suggested[index])
        return {
            "index": index,
            "fields": self.fields(index),
            "probable": [[n, round(float(found[n]), 4)] for n in best],
            "neighbours": [
                {"index": n, "id": self._ids[n], **({} if self.are_images else self.card(n))}
                for n in near
            ],
        }

    def card(self, index: int) -> dict[str, Any]:
        """Return what a card of the grid shows of a sample that is not a picture."""
        return {"fields": self.fields(index)}

    def fields(self, index: int) -> list[tuple[str, str, str]]:
        """Return (name, kind, text) of each field, as a person reads it."""
        if self.are_images and isinstance(self.content, Arrays):
            return []  # its numbers are seen in the picture
        items = self.content.fields(index).items()
        return [(name, _kind(value), shown(value)) for name, value in items]

    def picture(self, index: int, *, small: bool = False) -> bytes:
        """Draw a sample as PNG, in its own size unless it shall be small."""
        draw = pictures.small if small else pictures.whole
        return draw(self.content, index) or b""

    @cached_property
    def _ids(self) -> dict[int, str]:
        return dict(zip(self.table["index"].tolist(), self.table["id"].tolist(), strict=True))

    @cached_property
    def _neighbours(self) -> Neighbours:
        return Neighbours(self.content, self.table, list(self.given.values()))

    def _numbers(self, column: str) -> list[int]:
        number = {name: n for n, name in enumerate(self.class_names)}
        return [number[str(name)] for name in self.table[column]]


def corrected_labels(samples: ReviewSamples, decisions: Decisions) -> pd.DataFrame:
    """Return every sample with the label it has now; undecided ones keep theirs."""
    table = samples.table.sort_values("index", ignore_index=True)
    order = table["index"].tolist()
    states = [decisions.of(index) for index in order]
    given = [samples.given[index] for index in order]
    new = [old if s.label is None else s.label for s, old in zip(states, given, strict=True)]
    out = pd.DataFrame({"site": samples.site, "index": order, "id": table["id"]})
    out["given_label"] = _named(samples, given)
    out["label"] = _named(samples, new)
    out["unusable"] = [s.action == UNUSABLE for s in states]
    out["decision"] = ["" if s.action == NONE else s.action for s in states]
    out["comment"] = [s.comment for s in states]
    out["by"] = [s.by for s in states]
    out["when"] = [_when(s.time) for s in states]
    return out


def shown(value: Any) -> str:
    """Return a value as its owner wrote it: the shortest text that is this number."""
    if value is None:
        return "–"
    if isinstance(value, float | np.floating):
        short = np.float32(value)  # inputs of a model are float32: 0.1 and not 0.10000000149
        return str(short) if float(short) == float(value) else repr(float(value))
    return str(value)


def _kind(value: Any) -> str:
    if value is None:
        return "missing"
    if isinstance(value, str):
        return "text" if len(value) > TEXT or "\n" in value else "word"
    return "number"


def _named(samples: ReviewSamples, numbers: Sequence[int]) -> list[str]:
    return [samples.class_names[n] for n in numbers]


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds") if seconds else ""
