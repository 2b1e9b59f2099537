"""The hash family of the sketches: 4-wise independent, and the same on every machine.

For a seed and a row j, a cubic over GF(p), p = 2^31 - 1, gives h in [0, p) for a coordinate x:

    h(x)      = a_3 x^3 + a_2 x^2 + a_1 x + a_0  mod p
    sign(x)   = +1 if h is even, -1 if it is odd
    bucket(x) = floor((h >> 1) c / 2^30)  in [0, c)

The coefficients are the four little-endian 64-bit words, mod p, of BLAKE2b-256 of (seed, j). Sign
and bucket are taken from disjoint bits of one value, so the pairs (bucket, sign) are 4-wise
independent; the sparse embedding asks for pairwise buckets and 4-wise signs, the count sketch for
what `rotated_blocks.py` says.

A bucket receives floor or ceil(2^30 / c) of the 2^30 values, so its probability is off from 1/c by
a factor within 1 ± c / 2^30; a sign is off from 1/2 by less than 2^-31.

All arithmetic is int64 without a division. A fold takes v to (v & p) + (v >> 31), which is
v - (v >> 31) p and hence the same residue.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fedsift.compress.payload import check_at_least
from fedsift.errors import InputError

PRIME = 2**31 - 1
MAX_COLUMNS = 2**30
MAX_SEED = 2**64 - 1
CHUNK = 2**16  # cells computed at a time, over all rows; half a megabyte stays in a core's cache


def coefficients(seed: int, row: int) -> list[int]:
    """Return [a_3, a_2, a_1, a_0] of one row."""
    key = struct.pack("<QQ", seed, row)
    digest = hashlib.blake2b(key, digest_size=32, person=b"fedsift.hash").digest()
    return [word % PRIME for word in struct.unpack("<4Q", digest)]


@dataclass(frozen=True)
class HashFamily:
    """`rows` hash functions, from number `first` on, to `columns` buckets and a sign."""

    seed: int
    rows: int
    columns: int
    first: int = 0

    def __post_init__(self) -> None:
        check_at_least(1, rows=self.rows, columns=self.columns)
        check_at_least(0, seed=self.seed)
        if self.columns > MAX_COLUMNS:
            raise InputError(f"columns is {self.columns}; give at most {MAX_COLUMNS}")
        if self.seed > MAX_SEED:
            raise InputError(f"seed is {self.seed}; give at most {MAX_SEED}")

    def cells(self, start: int, stop: int, device: torch.device) -> Tensor:
        """Return bucket + columns * (sign < 0) of the coordinates in [start, stop), a row each.

        One index thus encodes both: it points into a table of 2c cells, the first half for positive
        and the second for negative signs.
        """
        h = self._values(torch.arange(start, stop, device=device))
        bucket = (h >> 1).mul_(self.columns).bitwise_right_shift_(30)
        return bucket.add_(h.bitwise_and_(1), alpha=self.columns)

    def blocks(self, length: int, device: torch.device) -> Iterator[tuple[slice, Tensor]]:
        """Yield the coordinates in [0, length) and their cells, a block at a time."""
        step = max(1, CHUNK // self.rows)
        for start in range(0, length, step):
            stop = min(start + step, length)
            yield slice(start, stop), self.cells(start, stop, device)

    def _values(self, x: Tensor) -> Tensor:
        a3, a2, a1, a0 = self._coefficients.to(x.device)
        x2 = _residue(x * x)
        x3 = _residue(x2 * x)
        # 2 (p-1)^2 < 2^63; folded it is below 3 * 2^31, and the whole again below 2^62.
        v = _fold((a3 * x3).addcmul_(a2, x2))
        return _residue(v.addcmul_(a1, x).add_(a0))

    @cached_property
    def _coefficients(self) -> Tensor:
        rows = range(self.first, self.first + self.rows)
        table = torch.tensor([coefficients(self.seed, row) for row in rows])
        return table.T.unsqueeze(2)


def check_length(length: int) -> None:
    """Refuse a vector that has more coordinates than the field has elements."""
    check_at_least(1, length=length)
    if length >= PRIME:
        raise InputError(f"a length of {length} cannot be hashed; give less than {PRIME}")


def _fold(v: Tensor) -> Tensor:
    return v.sub_(v >> 31, alpha=PRIME)


def _residue(v: Tensor) -> Tensor:
    """Return v mod p in [0, p), in place, for 0 <= v <= 2^62 - 2.

    Two folds bring v + 1 from [1, 2^62) into [1, p]: p is kept as p, not as 0.
    """
    return _fold(_fold(v.add_(1))).sub_(1)
