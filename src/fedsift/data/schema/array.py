"""Arrays: numbers that go to the model as they are; only their shape and type are agreed on.

Floats of any length become float32. Whole numbers stay whole: a model with an embedding reads them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor

from fedsift.data.samples import Arrays, Samples
from fedsift.data.schema.decoding import ADVICE, decode
from fedsift.data.schema.preparation import SchemaSettings, Workspace, expect
from fedsift.errors import DataError, InputError
from fedsift.memory import aligned
from fedsift.problem.inputs import Inputs, Shape, as_type

TYPES = {
    str(kind).removeprefix("torch."): kind
    for kind in (torch.float32, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
}


@dataclass(frozen=True)
class ArrayPreparation:
    """Shape and type of one input."""

    kind: ClassVar[str] = "array"
    size: tuple[int, ...]
    dtype: str

    def __post_init__(self) -> None:
        if any(n < 1 for n in self.size) or self.dtype not in TYPES:
            raise InputError(
                f"the preparation of arrays must have positive sizes and one of the types "
                f"{', '.join(TYPES)}; {ADVICE}"
            )

    @property
    def shape(self) -> Shape:
        """Shape of one input."""
        return self.size

    @property
    def inputs_kind(self) -> str:
        """Kind of inputs, for ``default_model``."""
        return "array" if TYPES[self.dtype].is_floating_point else "integers"

    @classmethod
    def fit(
        cls,
        clean: Samples,
        settings: SchemaSettings,  # noqa: ARG003
        workspace: Workspace,  # noqa: ARG003
    ) -> tuple[Self, tuple[str, ...]]:
        """Note shape and type of the clean set's inputs."""
        inputs = _inputs(clean)
        kind = _reading(inputs.dtype)
        name = str(kind).removeprefix("torch.")
        if name not in TYPES:
            raise DataError(
                f"{clean.where} has inputs of {name}; store them as float32 or whole numbers"
            )
        return cls(tuple(inputs.shape[1:]), name), ()

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Make it from what ``to_json`` returned."""
        return decode(cls, value, "preparation")

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)

    def inputs(self, samples: Samples, workspace: Workspace) -> Inputs:  # noqa: ARG002
        """Return the inputs themselves, in the clean set's type."""
        inputs = _inputs(samples)
        if tuple(inputs.shape[1:]) != self.size:
            raise DataError(
                f"{samples.where} has inputs of shape {list(inputs.shape[1:])}, and the clean set "
                f"of {list(self.size)}; give arrays of one shape"
            )
        kind = TYPES[self.dtype]
        if inputs.dtype.is_floating_point and not kind.is_floating_point:
            raise DataError(
                f"{samples.where} has fractions where the clean set has whole numbers; store both "
                "as the same type"
            )
        made = as_type(inputs, kind)
        return aligned(made) if isinstance(made, Tensor) else made

    def unseen(self, samples: Samples) -> list[str]:  # noqa: ARG002
        """Return nothing: an array either fits or is refused."""
        return []


def _inputs(samples: Samples) -> Inputs:
    expect(samples.content, "array", samples.where)
    return cast("Arrays", samples.content).inputs


def _reading(dtype: torch.dtype) -> torch.dtype:
    """Return the type that a model reads: floats and booleans as float32."""
    return torch.float32 if dtype.is_floating_point or dtype == torch.bool else dtype
