"""Bytes by how often they come: Huffman's code, as zlib has it, without a dictionary.

The largest numbers of a vector are mostly within a small factor of each other, so their 8 bits have
an entropy of about half of that. Numbers of 16 bits go as all their low bytes, then all their high
bytes. Matching of repeated strings, which zlib does by default, finds none here and costs bits.
"""

from __future__ import annotations

import zlib

import numpy as np

from fedsift.errors import WireError

RAW = -zlib.MAX_WBITS  # no header, no checksum: a transport has its own


def encode(data: memoryview, width: int) -> bytes:
    """Return numbers of ``width`` bytes as a code that tells its own end."""
    planes = np.frombuffer(data, np.uint8).reshape(-1, width).T
    coder = zlib.compressobj(9, zlib.DEFLATED, RAW, 9, zlib.Z_HUFFMAN_ONLY)
    return coder.compress(planes.tobytes()) + coder.flush()


def decode(view: memoryview, width: int, count: int) -> tuple[memoryview, memoryview]:
    """Return ``count`` numbers and what comes after their code."""
    reader, size = zlib.decompressobj(RAW), width * count
    try:
        data = reader.decompress(view, size) if size else b""
        more = reader.decompress(reader.unconsumed_tail if size else view, 1)
    except zlib.error:
        raise WireError("the values of a sparse vector are not in a code that this reads") from None
    if more or len(data) != size or not reader.eof:
        raise WireError(
            f"the values of a sparse vector are truncated or not {count}; send it again"
        )
    rest = view[len(view) - len(reader.unused_data) :]
    planes = np.frombuffer(data, np.uint8).reshape(width, -1).T
    return memoryview(planes.tobytes()), rest
