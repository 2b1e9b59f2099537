"""Numbers as integers modulo 2^32: q = round(a / unit), Σ q mod 2^32, mean = unit Σ q.

The unit is a power of two. With ``members`` summands of size at most 2^e each, every q is at most
2^31 / members, so the sum cannot wrap. What is larger is cut to that bound; NaN becomes 0 and is
counted as cut. Rounding costs at most members / 2 units:

    |error| <= members unit / 2 <= 2^e members^2 / 2^31     (2^-24 of 2^e for 10 members)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

MODULUS_BITS = 32
SMALLEST = -126  # the exponent of what is zero, or as good as that

Integers = npt.NDArray[np.uint32]
Numbers = npt.NDArray[np.float64]


def exponent(values: Numbers) -> int:
    """Return the least e with |a| <= 2^e for all finite values."""
    largest = float(np.abs(values).max(initial=0.0))
    if not math.isfinite(largest):
        largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    return max(SMALLEST, math.ceil(math.log2(largest))) if largest > 0 else SMALLEST


@dataclass(frozen=True)
class FixedPoint:
    """How numbers of size 2^``bound`` are written where ``members`` of them are summed."""

    bound: int
    members: int

    @property
    def unit(self) -> float:
        """Return what 1 stands for."""
        return 2.0 ** (self.bound + math.ceil(math.log2(self.members)) - (MODULUS_BITS - 1))

    def encode(self, values: Numbers) -> Integers:
        """Return the numbers as integers modulo 2^32."""
        most = np.floor((2.0 ** (MODULUS_BITS - 1) - 1) / self.members)
        scaled = np.clip(values * (1 / self.unit), -most, most)
        np.rint(scaled, out=scaled)
        if np.isnan(scaled.sum()):  # one pass, where no number is missing
            scaled[np.isnan(scaled)] = 0.0
        return scaled.astype(np.int32).view(np.uint32)

    def decode(self, total: Integers) -> Numbers:
        """Return the numbers that a sum modulo 2^32 stands for."""
        return total.view(np.int32).astype(np.float64) * self.unit
