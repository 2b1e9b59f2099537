"""Ascending indices as bits: the gaps between them, in Rice's code.

    g_i = index_i − index_i−1 − 1 = 2^b q_i + r_i:      r_i in b bits, q_i as q_i zeros and a one

b is the largest with 2^(b − 1) <= ln 1.618 · d / k, by which k random indices of d take within a
tenth of a bit each of their entropy log2 C(d, k): 7.1 bits at d / k = 50. Whatever they are, they
take at most b + 4 bits each.

All r come first, then all q; each ends on a whole byte, its first bit being the lowest.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedsift.errors import WireError

Indices = npt.NDArray[np.int64]
LARGEST = 2**32  # indices are below


def encode(indices: Indices, length: int) -> bytes:
    """Return ascending indices below ``length`` as bytes."""
    b, gaps = low_bits(len(indices), length), _gaps(indices)
    low = gaps & ((1 << b) - 1)
    columns = (low[:, None] >> np.arange(b)) & 1
    ends = np.cumsum((gaps >> b) + 1)
    unary = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    unary[ends - 1] = 1
    return _pack(columns.astype(np.uint8).ravel()) + _pack(unary)


def size(indices: Indices, length: int) -> int:
    """Return len(encode(indices, length))."""
    b = low_bits(len(indices), length)
    unary = int((_gaps(indices) >> b).sum()) + len(indices)
    return _bytes(len(indices) * b) + _bytes(unary)


def least_size(count: int, length: int) -> int:
    """Return the size below which no ``count`` indices can be."""
    return _bytes(count * low_bits(count, length)) + _bytes(count)


def decode(view: memoryview, count: int, length: int) -> Indices:
    """Read ``count`` indices; refuse what ``encode`` does not make."""
    b = low_bits(count, length)
    split = _bytes(count * b)
    unary = _unpack(view[split:])
    ends = np.flatnonzero(unary)
    if len(ends) < count:
        raise WireError("the indices of a sparse vector are truncated; send it again")
    if len(ends) > count or _bytes(int(ends[-1]) + 1 if count else 0) != len(view) - split:
        raise WireError("the indices of a sparse vector are followed by other bytes; send it again")
    bits = _unpack(view[:split])
    if bits[count * b :].any():
        raise WireError("the indices of a sparse vector end on bits that no fedsift sets")
    low = bits[: count * b].reshape(count, b).astype(np.int64) @ (1 << np.arange(b, dtype=np.int64))
    high = np.diff(ends, prepend=-1) - 1
    return np.cumsum((high << b) + low + 1) - 1


def low_bits(count: int, length: int) -> int:
    """Return b."""
    return (481 * min(length, LARGEST) // (1000 * max(count, 1))).bit_length()


def _gaps(indices: Indices) -> Indices:
    return np.diff(indices, prepend=-1) - 1


def _bytes(bits: int) -> int:
    return -(-bits // 8)


def _pack(bits: npt.NDArray[np.uint8]) -> bytes:
    return np.packbits(bits, bitorder="little").tobytes()


def _unpack(view: memoryview) -> npt.NDArray[np.uint8]:
    return np.unpackbits(np.frombuffer(view, np.uint8), bitorder="little")
