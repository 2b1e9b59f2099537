"""Features of a frozen encoder, standardised with the clean set's mean and deviation.

| encoder reads | its batches are made by        | input of the model                            |
|---------------|--------------------------------|-----------------------------------------------|
| text          | the text columns, joined       | features, then the other columns (`inner`)    |
| pictures      | `inner`, scaled to [0, 1] only | features                                      |
| inputs        | `inner`                        | features                                      |

The encoder that runs at a site is the one that the site names: a server's schema says only what its
fingerprint must be, so nothing is loaded or executed because a message asked for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fedsift.data.encoders import Chunks, Encoder, encoded, load_encoder
from fedsift.data.samples import Samples
from fedsift.data.schema import cells
from fedsift.data.schema.array import ArrayPreparation
from fedsift.data.schema.column_rules import MOST_OUTPUTS
from fedsift.data.schema.decoding import ADVICE, decode
from fedsift.data.schema.image import ImagePreparation
from fedsift.data.schema.preparation import SchemaSettings, Workspace
from fedsift.data.schema.table import TablePreparation, check_columns, chosen_kinds, frame_of
from fedsift.errors import DataError, InputError
from fedsift.problem.inputs import Inputs, Shape, take

Inner = TablePreparation | ImagePreparation | ArrayPreparation
INNER: dict[str, type[Inner]] = {
    row.kind: row for row in (TablePreparation, ImagePreparation, ArrayPreparation)
}
Numbers = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class EncodedPreparation:
    """Which encoder it must be, and how its features are scaled."""

    kind: ClassVar[str] = "encoded"
    encoder: str
    fingerprint: str
    columns: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    inner: Inner | None = None

    def __post_init__(self) -> None:
        sizes = 1 <= len(self.mean) == len(self.std) <= MOST_OUTPUTS
        rows = self.inner is None or self.inner.kind == "table"
        source = rows if self.columns else self.inner is not None
        if not sizes or min(self.std) <= 0 or not source:
            raise InputError(
                f"features must be 1 to {MOST_OUTPUTS}, each with a mean and a positive std, of "
                f"text columns or of prepared inputs; {ADVICE}"
            )

    @property
    def shape(self) -> Shape:
        """Shape of one input."""
        others = self.inner.shape[0] if self.columns and self.inner else 0
        return (len(self.mean) + others,)

    @property
    def inputs_kind(self) -> str:
        """Kind of inputs, for ``default_model``."""
        return "encoded"

    @classmethod
    def fit(
        cls, clean: Samples, settings: SchemaSettings, workspace: Workspace
    ) -> tuple[Self, tuple[str, ...]]:
        """Encode the clean set."""
        given = workspace.encoder
        kind = clean.content.kind
        encoder = given if isinstance(given, Encoder) else load_encoder(settings.encoder, kind)
        inner: Inner | None
        if encoder.reads == "text":
            columns, inner, notes = _text_columns(clean, settings, workspace)
        else:
            columns = ()
            inner, notes = INNER[kind].fit(clean, settings, workspace)
            if encoder.reads == "pictures" and isinstance(inner, ImagePreparation):
                zeros, ones = (0.0,) * inner.channels, (1.0,) * inner.channels
                inner = replace(inner, mean=zeros, std=ones)
        batches = _batches(columns, inner, clean, workspace)
        parts = encoded(encoder, batches, workspace.cache, workspace.progress)
        numbers = _moments(parts)
        return cls(encoder.spec, encoder.fingerprint, columns, *numbers, inner), notes

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Make it from what ``to_json`` returned."""
        inner = value.pop("inner", None)
        own = decode(_Own, value, "preparation")
        if inner is None:
            return cls(**vars(own))
        kind = inner.pop("kind", None) if isinstance(inner, dict) else None
        if not isinstance(kind, str) or kind not in INNER:
            raise InputError(f"preparation.inner is of no known kind; {ADVICE}")
        return cls(**vars(own), inner=INNER[kind].from_json(inner))

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        inner = self.inner and {"kind": self.inner.kind, **self.inner.to_json()}
        return {**asdict(self), "inner": inner}

    def inputs(self, samples: Samples, workspace: Workspace) -> Inputs:
        """Return features, computed where they are not in the cache yet."""
        batches = _batches(self.columns, self.inner, samples, workspace)
        encoder = self._agreed(samples, workspace)
        parts = encoded(encoder, batches, workspace.cache, workspace.progress)
        if any(part.shape[1] != len(self.mean) for part in parts):
            raise DataError(
                f"encoder {encoder.spec} gives {parts[0].shape[1]} features of {samples.where}, "
                f"and {len(self.mean)} of the clean set; use the server's version of it"
            )
        features = Chunks(parts, torch.tensor(self.mean), torch.tensor(self.std))
        if not (self.columns and self.inner):
            return features
        return Joined(features, self.inner.inputs(samples, workspace))

    def unseen(self, samples: Samples) -> list[str]:
        """Say what the clean set did not have and is passed over."""
        return self.inner.unseen(samples) if self.inner else []

    def _agreed(self, samples: Samples, workspace: Workspace) -> Encoder:
        """Return the encoder that this site named, if it is the server's."""
        given = workspace.encoder
        if given is None:
            raise InputError(
                f"the model takes features of the encoder {self.encoder[:100]!r}, and the samples "
                "came without one; give the same encoder with --encoder"
            )
        encoder = load_encoder(given, samples.content.kind) if isinstance(given, str) else given
        if encoder.fingerprint != self.fingerprint:
            raise InputError(
                f"encoder {encoder.spec} has the fingerprint {encoder.fingerprint[:12]} and the "
                f"server's {self.encoder[:100]!r} has {self.fingerprint[:12]}; use the same weights"
            )
        return encoder


@dataclass(frozen=True)
class _Own:
    """An encoded preparation without its inner one."""

    encoder: str
    fingerprint: str
    columns: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Joined:
    """Features of a row's text, then its other columns."""

    first: Inputs
    second: Inputs

    def __len__(self) -> int:
        return len(self.first)

    @property
    def shape(self) -> Shape:
        """Number of samples, then the shape of one input."""
        return (len(self.first), self.first.shape[1] + self.second.shape[1])

    @property
    def dtype(self) -> torch.dtype:
        """Type of the numbers."""
        return torch.float32

    def take(self, indices: Tensor) -> Tensor:
        """Read these samples, in this order."""
        return torch.cat([take(self.first, indices), take(self.second, indices)], dim=1)


def _text_columns(
    clean: Samples, settings: SchemaSettings, workspace: Workspace
) -> tuple[tuple[str, ...], TablePreparation | None, tuple[str, ...]]:
    """Return the columns that are text, the preparation of the others, and notes."""
    kinds, notes = chosen_kinds(frame_of(clean), settings, clean.where)
    columns = tuple(name for name, kind in kinds.items() if kind == "text")
    if not columns:
        raise DataError(
            f"{clean.where} has no text column for encoder {settings.encoder}; choose one as text"
        )
    if all(kind in {"text", "ignore"} for kind in kinds.values()):
        return columns, None, tuple(notes)
    others = replace(settings, columns={**settings.columns, **dict.fromkeys(columns, "ignore")})
    inner, notes_of_others = TablePreparation.fit(clean, others, workspace)
    return columns, inner, notes_of_others


def _batches(
    columns: tuple[str, ...], inner: Inner | None, samples: Samples, workspace: Workspace
) -> Inputs | Sequence[str]:
    if not columns:
        return cast("Inner", inner).inputs(samples, workspace)
    frame = frame_of(samples)
    check_columns(frame, columns, samples.where)
    texts = pd.concat([cells.texts(frame[name]).fillna("") for name in columns], axis=1)
    return ["\n".join(row) for row in texts.itertuples(index=False)]


def _moments(parts: Sequence[Any]) -> Numbers:
    """Return mean and deviation of each feature; of a constant one, 1."""
    count = sum(len(part) for part in parts)
    mean = sum(part.sum(axis=0, dtype=np.float64) for part in parts) / count
    variance = sum(np.square(part - mean).sum(axis=0) for part in parts) / count
    std = np.sqrt(variance)
    flat = std <= 1e-6 * np.maximum(np.abs(mean), 1e-6)
    return tuple(mean.tolist()), tuple(np.where(flat, 1.0, std).tolist())
