"""From a site's own samples to what a model takes: inputs, and numbers for the classes.

The server fits a schema on the clean set and sends it with the model. Every site applies the same
numbers, so a column means the same everywhere and a class has the same number everywhere.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from fedsift.data.samples import Samples
from fedsift.data.schema.decoding import ADVICE, decode, parse
from fedsift.data.schema.preparation import Preparation, SchemaSettings, Workspace
from fedsift.data.schema.registry import PREPARATIONS
from fedsift.errors import DataError, InputError
from fedsift.problem.inputs import Inputs, Shape

INTEGER = re.compile(r"[+-]?[0-9]+")
SHOWN = 5


@dataclass(frozen=True)
class Schema:
    """What all sites agree on; ``notes`` say what was decided."""

    classes: tuple[str, ...]
    preparation: Preparation
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.classes) < 2 or len(set(self.classes)) < len(self.classes):
            listed = ", ".join(repr(name[:40]) for name in self.classes[:SHOWN]) or "none"
            raise InputError(
                f"there must be two classes or more, all different, and there are {listed}; list "
                "them with --classes"
            )

    @classmethod
    def fit(
        cls,
        clean: Samples,
        *,
        classes: Sequence[str] | None = None,
        settings: SchemaSettings | None = None,
        workspace: Workspace | None = None,
    ) -> Self:
        """Fit on the clean set; ``classes`` adds those that it lacks."""
        if not len(clean):
            raise DataError(f"{clean.where} has no samples; give a clean set")
        settings = settings or SchemaSettings()
        known = clean.classes or in_order(clean.labels)
        names = tuple(dict.fromkeys([*known, *(classes or ())]))
        kind = PREPARATIONS["encoded" if settings.encoder else clean.content.kind]
        preparation, notes = kind.fit(clean, settings, workspace or Workspace())
        schema = cls(names, preparation, notes)
        schema.labels(clean)
        return schema

    @property
    def shape(self) -> Shape:
        """Shape of one input."""
        return self.preparation.shape

    def inputs(self, samples: Samples, workspace: Workspace | None = None) -> Inputs:
        """Make inputs of samples."""
        return self.preparation.inputs(samples, workspace or Workspace())

    def labels(self, samples: Samples) -> Tensor:
        """Return the numbers of the samples' classes."""
        numbers = {name: number for number, name in enumerate(self.classes)}
        unknown = Counter(label for label in samples.labels if label not in numbers)
        if unknown:
            listed = ", ".join(f"{v[:40]!r}: {n}" for v, n in unknown.most_common(SHOWN))
            more = f" and {len(unknown) - SHOWN} others" if len(unknown) > SHOWN else ""
            raise DataError(
                f"{samples.where} has labels that are no class ({listed}{more}); list the class "
                "with --classes or correct the label"
            )
        return torch.tensor([numbers[label] for label in samples.labels], dtype=torch.int64)

    def unseen(self, samples: Samples) -> list[str]:
        """Say what the clean set did not have and is passed over, a sentence each."""
        return self.preparation.unseen(samples)

    def to_json(self) -> str:
        """Return it as text for the sites."""
        preparation = {"kind": self.preparation.kind, **self.preparation.to_json()}
        return json.dumps(
            {"classes": self.classes, "notes": self.notes, "preparation": preparation},
            allow_nan=False,
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Make it from text that anyone may have written."""
        value = parse(text)
        preparation = value.pop("preparation", None)
        names = decode(_Names, value, "the schema")
        if not isinstance(preparation, dict):
            raise InputError(f"the schema has no preparation; {ADVICE}")
        kind = preparation.pop("kind", None)
        if not isinstance(kind, str) or kind not in PREPARATIONS:
            raise InputError(
                f"the schema's preparation is of an unknown kind {ascii(kind)[:40]}; {ADVICE}, or "
                "install the server's version of fedsift"
            )
        return cls(names.classes, PREPARATIONS[kind].from_json(preparation), names.notes)


@dataclass(frozen=True)
class _Names:
    """A schema without its preparation."""

    classes: tuple[str, ...]
    notes: tuple[str, ...]


def in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """Return the classes that occur: by number where all are whole numbers, else by text."""
    names = sorted(set(labels))
    if all(INTEGER.fullmatch(name) for name in names):
        names.sort(key=int)
    return tuple(names)


def prepare(
    schema: Schema, samples: Samples, workspace: Workspace | None = None
) -> tuple[Inputs, Tensor]:
    """Return inputs and the numbers of the classes."""
    return schema.inputs(samples, workspace), schema.labels(samples)
