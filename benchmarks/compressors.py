"""Compressors against copying the same number of bytes."""

from __future__ import annotations

from functools import partial

import torch

from benchmarks.timing import ratio
from fedsift.compress import CountSketch, TopK
from fedsift.randomness import generator

RATE = 20


def measure() -> dict[str, float]:
    """Time encode and decode of 10^6 and 10^7 numbers."""
    out = {}
    for power in (6, 7):
        d = 10**power
        g = torch.randn(d, generator=generator(0, "benchmark"))
        target = torch.empty_like(g)
        for name, compressor in (
            ("count_sketch", CountSketch.at_rate(d, RATE)),
            ("topk", TopK.at_rate(d, RATE)),
        ):
            payload = compressor.compress(g)
            copy = partial(target.copy_, g)
            encode, decode = (
                partial(compressor.compress, g),
                partial(compressor.decompress, payload),
            )
            out[f"{name}_encode_1e{power}_over_copy"] = ratio(encode, copy, repeats=3)
            out[f"{name}_decode_1e{power}_over_copy"] = ratio(decode, copy, repeats=3)
    return out
