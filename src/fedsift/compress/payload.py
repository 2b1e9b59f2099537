"""What a compressor is, and what it sends.

A compressor is a pair S: R^d -> payload, U: payload -> R^d. The paper's compression rate counts
numbers, `rate = d / numbers`; what travels in bytes is measured on the encoded form (`wire.py`).

| symbol | here |
|---|---|
| d | `length` |
| S(g) | `compress(g)` |
| U(S) | `decompress(payload)` |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from fedsift.errors import InputError


@dataclass(frozen=True, eq=False)
class Sparse:
    """A vector of `length` numbers, zero but for `values` at `indices` (int64, ascending).

    `bits` are those that a value travels in, which it must have been rounded to (`rounding.py`);
    0: all that its dtype has.
    """

    indices: Tensor
    values: Tensor
    length: int
    bits: int = 0

    def dense(self) -> Tensor:
        """Return the vector."""
        return self.values.new_zeros(self.length).index_put_((self.indices,), self.values)


@dataclass(frozen=True, eq=False)
class Sketch:
    """The r x c counters of a count sketch of a vector of `length` numbers."""

    table: Tensor
    length: int
    seed: int


Payload: TypeAlias = Tensor | Sparse | Sketch


class Compressor(Protocol):
    """S and U for vectors of one length."""

    @property
    def length(self) -> int:
        """The d of the vectors."""
        ...

    @property
    def numbers(self) -> int:
        """How many numbers one vector becomes; indices cost bytes but are not counted here."""
        ...

    @property
    def linear(self) -> bool:
        """True if S(a g + b h) = a S(g) + b S(h)."""
        ...

    def compress(self, g: Tensor) -> Payload:
        """Return S(g)."""
        ...

    def decompress(self, payload: Payload) -> Tensor:
        """Return U(payload), a vector of `length` numbers."""
        ...

    def spec(self) -> dict[str, int | str]:
        """Return what `from_spec` needs to build the same compressor elsewhere."""
        ...


def rate_of(compressor: Compressor) -> float:
    """Return the compression rate d / numbers."""
    return compressor.length / compressor.numbers


def check_at_least(minimum: float, **values: float) -> None:
    """Refuse a parameter below `minimum`, or one that is NaN."""
    for name, value in values.items():
        if not value >= minimum:
            raise InputError(f"{name} is {value}; give a {name} of at least {minimum}")


def check_vector(g: Tensor, length: int) -> Tensor:
    """Return `g` without its graph, or refuse it when it is not a real vector of `length`."""
    if g.shape != (length,):
        raise InputError(
            f"the compressor is for vectors of length {length} but was given shape"
            f" {tuple(g.shape)}; flatten it or build a compressor of that length"
        )
    if g.dtype not in {torch.float32, torch.float64}:
        raise InputError(f"a vector to compress is {g.dtype}; convert it to float32 or float64")
    return g.detach()
