"""Top-k: send the k numbers of largest magnitude and their indices.

    C(g)_i = g_i if i is one of the k largest |g_i|, else 0
    ||g - C(g)||^2 <= (1 - k/d) ||g||^2

Of equal magnitudes the one at the lower index goes first, on every device. NaN counts as infinite,
so that a diverged vector is sent and noticed, not hidden.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from fedsift.compress.payload import Payload, Sparse, check_at_least, check_vector
from fedsift.compress.rounding import FORMS, WHOLE, rounded
from fedsift.compress.settings import RateKeys
from fedsift.errors import InputError
from fedsift.keys import BuildContext, Keys, Settings, key

LONG = 2**15  # numbers from which on a sample tells where the k-th largest is
SAMPLE = 2**13  # numbers, at least
PART = 2**16


def largest(g: Tensor, k: int) -> Tensor:
    """Return the indices of the k numbers of largest magnitude, ascending."""
    if g.device.type != "cpu":
        return _by_sorting(_magnitude(g), k)
    if len(g) >= LONG and 4 * k <= len(g):
        places, magnitude = _candidates(g, k)
        if len(places) >= k:
            return places[_among(magnitude, k)]
    return _among(_magnitude(g), k)


def _magnitude(g: Tensor) -> Tensor:
    return g.abs().nan_to_num_(nan=math.inf, posinf=math.inf)


def _among(magnitude: Tensor, k: int) -> Tensor:
    threshold = _kth_largest(magnitude, k)
    chosen = magnitude > threshold
    ties = _places(magnitude == threshold)
    chosen[ties[: k - int(chosen.sum())]] = True
    return _places(chosen)


def _candidates(g: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return places that hold the k largest, ascending, and the magnitudes there.

    They are those at or above a threshold that about k numbers pass, judged by every n-th number,
    plus six standard deviations. If fewer than k do, the sample was misleading: the caller notices.
    Part by part, so that no second vector is made: new memory costs more than reading it.
    """
    sample = _magnitude(g[:: len(g) // SAMPLE | 1])
    expected = k * len(sample) / len(g)
    rank = min(len(sample), math.ceil(expected + 6 * math.sqrt(expected) + 6))
    threshold, places, found = _kth_largest(sample, rank), [], []
    for start in range(0, len(g), PART):
        magnitude = _magnitude(g[start : start + PART])
        passed = _places(magnitude >= threshold)
        places.append(passed + start)
        found.append(magnitude[passed])
    return torch.cat(places), torch.cat(found)


def _by_sorting(magnitude: Tensor, k: int) -> Tensor:
    """Return the same, slower on a CPU, but with nothing read back to the host."""
    order = torch.sort(magnitude, descending=True, stable=True).indices
    return torch.sort(order[:k]).values


def _places(mask: Tensor) -> Tensor:
    return torch.from_numpy(np.flatnonzero(mask.numpy()))  # a third of the time of torch.nonzero


def _kth_largest(x: Tensor, k: int) -> float:
    place = len(x) - k  # numpy's is about eight times as fast as torch.topk on 10^6 numbers
    return float(np.partition(x.numpy(), place)[place])


@dataclass(frozen=True)
class TopK:
    """Keep the numbers of largest magnitude.

    Attributes:
        length: d.
        k: How many are kept.
        bits: Of each number that is sent, 16 or 8; 0: as they are.
    """

    length: int
    k: int
    bits: int = WHOLE

    def __post_init__(self) -> None:
        check_at_least(1, length=self.length, k=self.k)
        if self.k > self.length:
            raise InputError(f"k is {self.k}; give a k of at most the length {self.length}")
        if self.bits != WHOLE and self.bits not in FORMS:
            raise InputError(
                f"bits is {self.bits}; give one of {WHOLE}, {', '.join(map(str, FORMS))}"
            )

    @classmethod
    def at_rate(cls, length: int, rate: float, bits: int = WHOLE) -> Self:
        """Return the compressor with k = max(1, floor(d / rate))."""
        check_at_least(1, rate=rate)
        return cls(length, max(1, math.floor(length / rate)), bits)

    @property
    def numbers(self) -> int:
        """The k values."""
        return self.k

    @property
    def linear(self) -> bool:
        """Which k are kept depends on g."""
        return False

    def compress(self, g: Tensor) -> Sparse:
        """Return the k largest numbers with their indices."""
        g = check_vector(g, self.length)
        indices = largest(g, self.k)
        values, bits = rounded(g[indices], self.bits)
        return Sparse(indices, values, self.length, bits)

    def decompress(self, payload: Payload) -> Tensor:
        """Return the vector with zeros where nothing was sent."""
        if not isinstance(payload, Sparse) or payload.length != self.length:
            raise InputError(
                f"top-k for length {self.length} was given another kind or length of payload;"
                " use the same compressor on both sides"
            )
        values = check_vector(payload.values, len(payload.indices))
        return values.new_zeros(self.length).index_put_((payload.indices,), values)

    def spec(self) -> dict[str, int | str]:
        """Return the name, the length, k and the bits."""
        bits = {"bits": self.bits} if self.bits else {}
        return {"name": "topk", "length": self.length, "k": self.k, **bits}


@dataclass(frozen=True)
class TopKKeys(Keys):
    """The form of the values that Top-k sends."""

    table: ClassVar[str] = "solver"
    value_bits: int = key(
        16, "bits, at most, of a number that topk sends: 32 (all of it), 16 or 8", low=8, high=32
    )


def build(settings: Settings, context: BuildContext) -> TopK:
    """Build it from its keys."""
    most = settings[TopKKeys].value_bits
    bits = WHOLE if most >= 32 else max(form for form in FORMS if form <= most)
    return TopK.at_rate(context.length, settings[RateKeys].rate, bits)
