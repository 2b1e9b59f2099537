"""No compression: S and U are the identity. The baseline of every comparison of rates."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedsift.compress.payload import Payload, check_at_least, check_vector
from fedsift.errors import InputError
from fedsift.keys import BuildContext, Settings


@dataclass(frozen=True)
class Identity:
    """Send the vector as it is.

    Attributes:
        length: d.
    """

    length: int

    def __post_init__(self) -> None:
        check_at_least(1, length=self.length)

    @property
    def numbers(self) -> int:
        """All d numbers."""
        return self.length

    @property
    def linear(self) -> bool:
        """S is the identity."""
        return True

    def compress(self, g: Tensor) -> Tensor:
        """Return g."""
        return check_vector(g, self.length)

    def decompress(self, payload: Payload) -> Tensor:
        """Return the payload, which is the vector."""
        if not isinstance(payload, Tensor):
            raise InputError(f"identity was given a {type(payload).__name__}; send a tensor")
        return check_vector(payload, self.length)

    def spec(self) -> dict[str, int | str]:
        """Return the name and the length."""
        return {"name": "identity", "length": self.length}


def build(settings: Settings, context: BuildContext) -> Identity:  # noqa: ARG001
    """Build it; it has no keys."""
    return Identity(context.length)
