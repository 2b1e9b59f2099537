"""Compressors against copying the same numbers, and the plain versions of the same beside them.

count_sketch         rotated blocks; the hash is computed anew, as in every round
count_sketch_plain   a hash per coordinate, added and read number by number, then torch.topk
topk                 a sampled threshold
topk_plain           torch.topk
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from benchmarks.timing import ratio
from fedsift.compress import CountSketch, TopK
from fedsift.compress.hashing import HashFamily
from fedsift.compress.payload import Sketch
from fedsift.randomness import generator

RATE = 20


def measure() -> dict[str, float]:
    """Time encode and decode of 10^6 and 10^7 numbers."""
    out = {}
    for power in (6, 7):
        d = 10**power
        g = torch.randn(d, generator=generator(0, "benchmark"))
        copy = partial(torch.empty_like(g).copy_, g)
        for name, work in sides(d, g).items():
            out[f"{name}_1e{power}_over_copy"] = ratio(work, copy, repeats=5)
    return out


def sides(d: int, g: Tensor) -> dict[str, Callable[[], object]]:
    """Return what is timed, by name."""
    sketch, topk = CountSketch.at_rate(d, RATE), TopK.at_rate(d, RATE)
    table, sent = sketch.compress(g), topk.compress(g)
    return {
        "count_sketch_encode": lambda: CountSketch.at_rate(d, RATE).compress(g),
        "count_sketch_decode": lambda: CountSketch.at_rate(d, RATE).decompress(table),
        "count_sketch_plain_encode": partial(plain_sketch, sketch, g),
        "count_sketch_plain_decode": partial(plain_decode, sketch, table),
        "topk_encode": partial(topk.compress, g),
        "topk_decode": partial(topk.decompress, sent),
        "topk_plain_encode": lambda: torch.topk(g.abs(), topk.k),
    }


def plain_sketch(sketch: CountSketch, g: Tensor) -> Tensor:
    """Add every number to its cell."""
    counters = g.new_zeros(sketch.rows, 2 * sketch.columns)
    hashes = HashFamily(sketch.seed, sketch.rows, sketch.columns)
    for block, cells in hashes.blocks(sketch.length, g.device):
        counters.scatter_add_(1, cells, g[block].expand_as(cells))
    return counters[:, : sketch.columns] - counters[:, sketch.columns :]


def plain_decode(sketch: CountSketch, payload: Sketch) -> Tensor:
    """Read every number from its cells, and keep the largest."""
    counters = torch.cat((payload.table, -payload.table), dim=1)
    estimate = counters.new_empty(sketch.length)
    hashes = HashFamily(sketch.seed, sketch.rows, sketch.columns)
    for block, cells in hashes.blocks(sketch.length, estimate.device):
        estimate[block] = counters.gather(1, cells).median(dim=0).values
    kept = torch.topk(estimate.abs(), sketch.k).indices
    return torch.zeros_like(estimate).index_put_((kept,), estimate[kept])
