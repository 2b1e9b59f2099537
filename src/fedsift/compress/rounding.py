"""Numbers in 16 or 8 bits: small floating-point numbers that share one power of two.

    v ≈ 2^e c,   max |v| < 2^e,   c a float16 (11 bits of precision) or a float8 e4m3 (4 bits)

Rounding is a part of compression, not of the wire: whoever keeps the error of a compressor sees
the numbers that arrive, and clients in one process get the same ones as clients elsewhere.

A power of two multiplies exactly, so rounded numbers can be written in their few bits and read back
with nothing lost.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

WHOLE = 0  # all bits of the dtype
FORMS: dict[int, tuple[torch.dtype, int]] = {  # dtype of c, and what is added to its exponent
    16: (torch.float16, 0),
    8: (torch.float8_e4m3fn, 8),
}
FARTHEST = 1000  # exponents beyond are those of no model


def rounded(values: Tensor, bits: int) -> tuple[Tensor, int]:
    """Return the numbers that ``bits`` bits can say, and how many bits they take.

    What is not finite, and what has no small form, stays as it is.
    """
    if bits not in FORMS or values.dtype not in {torch.float32, torch.float64}:
        return values, WHOLE
    if not bool(torch.isfinite(values).all()):
        return values, WHOLE
    exponent = exponent_of(values)
    found = read_codes(codes(values, bits, exponent), bits, exponent, values.dtype)
    if (above := exponent_of(found)) != exponent:  # the largest was rounded up to 2^e
        found = read_codes(codes(values, bits, above), bits, above, values.dtype)
    return found, bits


def exponent_of(values: Tensor) -> int:
    """Return e with 2^(e - 1) <= max |v| < 2^e, within ±``FARTHEST``; 0 where all are zero."""
    top = float(values.abs().max()) if values.numel() else 0.0
    return max(-FARTHEST, min(FARTHEST, math.frexp(top)[1]))


def codes(values: Tensor, bits: int, exponent: int) -> Tensor:
    """Return c of every number."""
    dtype, shift = FORMS[bits]
    return (values.double() * 2.0 ** (shift - exponent)).float().to(dtype)


def read_codes(small: Tensor, bits: int, exponent: int, dtype: torch.dtype) -> Tensor:
    """Return 2^e c."""
    _, shift = FORMS[bits]
    return (small.double() * 2.0 ** (exponent - shift)).to(dtype)
