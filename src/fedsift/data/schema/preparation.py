"""How samples become inputs: the protocol, and what it may be told.

A preparation is fitted once, on the clean set at the server. Its numbers travel as JSON, and every
site applies them as they are: nothing is fitted again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from fedsift.data.encoders.encoder import Encoder
from fedsift.data.samples import Content, Samples
from fedsift.errors import DataError
from fedsift.problem.inputs import Inputs, Shape

NAMES = {"table": "rows of a table", "image": "pictures", "array": "arrays of numbers"}


@dataclass(frozen=True)
class SchemaSettings:
    """What is decided before fitting.

    ``columns``   the kind of a column where it must not be guessed: number, boolean, category,
                  text, or ignore
    ``encoder``   a frozen encoder, such as ``timm:resnet18``; empty: none
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    encoder: str = ""


@dataclass(frozen=True)
class Workspace:
    """What a site itself decides while inputs are made.

    ``encoder``    the encoder that it agrees to run: never one that a schema names
    ``cache``      folder of its features; None: ``FEDSIFT_CACHE``, else the user's cache
    ``progress``   called with (samples done, all samples)
    """

    encoder: str | Encoder | None = None
    cache: Path | None = None
    progress: Callable[[int, int], None] = lambda _done, _total: None


class Preparation(Protocol):
    """Fitted numbers that make inputs of any site's samples."""

    kind: ClassVar[str]

    @classmethod
    def fit(
        cls, clean: Samples, settings: SchemaSettings, workspace: Workspace
    ) -> tuple[Self, tuple[str, ...]]:
        """Fit on the clean set; also say what was decided, in sentences."""
        ...

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Make it from what ``to_json`` returned, and trust nothing in it."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        ...

    @property
    def shape(self) -> Shape:
        """Shape of one input."""
        ...

    @property
    def inputs_kind(self) -> str:
        """Kind of inputs, for ``default_model``."""
        ...

    def inputs(self, samples: Samples, workspace: Workspace) -> Inputs:
        """Make inputs; what does not fit the clean set is a DataError."""
        ...

    def unseen(self, samples: Samples) -> list[str]:
        """Say what the clean set did not have and is passed over, a sentence each."""
        ...


def expect(content: Content, kind: str, where: str) -> None:
    """Refuse samples of another kind than the clean set's."""
    if content.kind != kind:
        raise DataError(
            f"{where} has {NAMES.get(content.kind, content.kind)} where the clean set has "
            f"{NAMES[kind]}; give samples of the same kind"
        )


def sample(samples: Samples, index: int) -> str:
    """Name a sample in a message: its position, counted from 0, and its owner's id."""
    name = "" if samples.ids is None else f" (id {samples.ids[index]!r})"
    return f"row {index}{name}"
