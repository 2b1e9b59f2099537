"""What another library would make of the bytes of a sparse update: zstd beside our codes.

    python -m benchmarks coding

An update is the change of the digits network in FedAvg's fourth round, seed 20, by Top-k. Values go
as planes of bytes, indices as gaps; zstd is that of pyarrow, at its highest common level.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from benchmarks.breast_cancer import provenance
from fedsift.compress import TopK, huffman, rice
from fedsift.compress.rounding import codes, exponent_of
from fedsift.experiment.config import Config
from fedsift.experiment.loop import rounds
from fedsift.experiment.setup import from_config
from fedsift.files import write_text

OUT = Path("results/coding.json")
RATES, BITS, LEVEL = (5, 12, 50), (8, 16), 19


def update() -> Tensor:
    """Return the change of a model in one round."""
    keys = {"dataset": "digits", "method": "fedavg", "seed": 20, "rounds": 4, "eval_every": 4}
    setup = from_config(Config.of(inner_lr=0.1, **keys).resolve())
    models = [found.state.y for found in rounds(setup, setup.initial_state(), 0)]
    return models[-1] - models[-2]


def zstd(data: bytes) -> int:
    """Return the size of bytes in zstd."""
    return len(pa.Codec("zstd", compression_level=LEVEL).compress(data, asbytes=True))


def measure(change: Tensor, rate: float, bits: int) -> dict[str, Any]:
    """Return the bytes of values and indices in both codes, and the entropy of the values."""
    sparse = TopK.at_rate(len(change), rate, bits).compress(change)
    small = codes(sparse.values, bits, exponent_of(sparse.values)).contiguous()
    plain = small.view(torch.uint8 if bits == 8 else torch.int16).numpy().tobytes()
    planes = np.frombuffer(plain, np.uint8).reshape(-1, bits // 8).T
    indices = sparse.indices.numpy()
    gaps = np.diff(indices, prepend=-1) - 1
    gaps = gaps.astype(np.uint8 if gaps.max() < 256 else np.uint16)
    return {
        "rate": rate,
        "bits": bits,
        "numbers": len(indices),
        "values": {
            "entropy": round(sum(map(_entropy, planes))),
            "huffman": len(huffman.encode(memoryview(plain), bits // 8)),
            "zstd": zstd(planes.tobytes()),
        },
        "indices": {"rice": rice.size(indices, len(change)), "zstd": zstd(gaps.tobytes())},
    }


def _entropy(plane: Any) -> float:
    """Return the bytes that values take if each is coded by how often it comes."""
    counts = np.bincount(plane)
    share = counts[counts > 0] / counts.sum()
    return float(-(share * np.log2(share)).sum() * len(plane) / 8)


def main(arguments: list[str] | None = None) -> None:  # noqa: ARG001
    """Measure all and write."""
    torch.set_num_threads(1)
    change = update()
    rows = [measure(change, rate, bits) for rate in RATES for bits in BITS]
    for row in rows:
        print(row)
    found = {"rows": rows, **provenance("python -m benchmarks coding")}
    write_text(OUT, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
