"""Normal numbers from a cryptographic stream: SHAKE-256 in counter mode, and Box and Muller's map.

    u₁, u₂ = uniform in (0, 1] of 53 bits        n₁, n₂ = √(−2 ln u₁) (cos, sin)(2π u₂)

A generator such as torch's can be reconstructed from what it drew; noise that hides something must
not be. The key is secret at a deployed site and derived from the seed in a simulation.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

BLOCK = 2**16  # pairs of numbers
BITS = 53  # of a uniform number


def normal(key: bytes, count: int) -> npt.NDArray[np.float64]:
    """Return this many independent N(0, 1) numbers; the same key gives the same."""
    blocks = [
        _pairs(key, start // BLOCK, min(BLOCK, (count + 1) // 2 - start))
        for start in range(0, (count + 1) // 2, BLOCK)
    ]
    return np.concatenate(blocks)[:count] if blocks else np.zeros(0)


def _pairs(key: bytes, block: int, pairs: int) -> npt.NDArray[np.float64]:
    stream = hashlib.shake_256(key + block.to_bytes(8, "little")).digest(16 * pairs)
    integers = np.frombuffer(stream, "<u8").reshape(pairs, 2) >> (64 - BITS)
    uniform = (integers.astype(np.float64) + 1.0) / 2.0**BITS
    radius, angle = np.sqrt(-2.0 * np.log(uniform[:, 0])), 2.0 * np.pi * uniform[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)
