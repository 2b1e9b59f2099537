"""Features, computed once and kept on disk.

    <cache>/<fingerprint>/<SHA-256 of fingerprint and 512 samples>.npy

A file is complete or absent, so a run that was killed goes on with the chunk it was at, and samples
that did not change are never encoded again, whatever their file is called now.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedsift.data.encoders.encoder import Batch, Encoder
from fedsift.errors import DataError, FedsiftError
from fedsift.files import write_atomically
from fedsift.problem.inputs import Inputs, Shape, take

VARIABLE = "FEDSIFT_CACHE"
CHUNK, BATCH = 512, 64
Progress = Callable[[int, int], None]
Features = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Chunks:
    """Features [n, d] in memory-mapped files of up to 512 rows, standardised when taken."""

    parts: tuple[Features, ...]
    mean: Tensor
    std: Tensor

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    @property
    def shape(self) -> Shape:
        """Number of samples, then the shape of one input."""
        return (len(self), len(self.mean))

    @property
    def dtype(self) -> torch.dtype:
        """Type of the numbers."""
        return torch.float32

    def take(self, indices: Tensor) -> Tensor:
        """Read these samples, in this order."""
        raw = torch.empty(len(indices), len(self.mean))
        places = indices.cpu()
        chunks = places.div(CHUNK, rounding_mode="floor")
        for number in sorted(set(chunks.tolist())):
            rows = chunks == number
            part = self.parts[number][(places[rows] % CHUNK).numpy()]
            raw[rows] = torch.from_numpy(part)
        return (raw - self.mean) / self.std


def default_cache() -> Path:
    """Return the folder of features: ``FEDSIFT_CACHE``, else the user's cache."""
    return Path(os.environ.get(VARIABLE) or "~/.cache/fedsift/features").expanduser()


def encoded(
    encoder: Encoder, batches: Inputs | Sequence[str], cache: Path | None, progress: Progress
) -> tuple[Features, ...]:
    """Return the features of all samples, chunk by chunk; only missing chunks are computed."""
    folder = (cache or default_cache()) / encoder.fingerprint[:32]
    total = len(batches)
    parts = []
    for start in range(0, total, CHUNK):
        end = min(start + CHUNK, total)
        path = folder / f"{_key(encoder, batches, start, end)}.npy"
        if (part := _read(path, end - start)) is None:
            _write(path, _compute(encoder, batches, start, end, progress))
            part = _read(path, end - start)
        if part is None:
            raise DataError(f"{path} was changed while it was written; clear the folder {folder}")
        parts.append(part)
        progress(end, total)
    return tuple(parts)


def _batches(batches: Inputs | Sequence[str], start: int, end: int) -> Iterator[tuple[int, Batch]]:
    """Read a chunk a few samples at a time: 512 large pictures need not fit into memory."""
    for first in range(start, end, BATCH):
        last = min(first + BATCH, end)
        if isinstance(batches, Sequence):
            yield last, batches[first:last]
        else:
            yield last, take(batches, torch.arange(first, last))


def _key(encoder: Encoder, batches: Inputs | Sequence[str], start: int, end: int) -> str:
    digest = hashlib.sha256(encoder.fingerprint.encode())
    for _, batch in _batches(batches, start, end):
        for raw in _raw(batch):
            digest.update(len(raw).to_bytes(8, "big"))
            digest.update(raw)
    return digest.hexdigest()


def _raw(batch: Batch) -> Iterator[bytes]:
    if isinstance(batch, Tensor):
        yield f"{batch.dtype} {list(batch.shape)}".encode()
        yield batch.contiguous().numpy().tobytes()
    else:
        yield from (text.encode("utf-8", "surrogatepass") for text in batch)


def _compute(
    encoder: Encoder,
    batches: Inputs | Sequence[str],
    start: int,
    end: int,
    progress: Progress,
) -> Features:
    parts = []
    for last, batch in _batches(batches, start, end):
        part = encoder.encode(batch)
        if part.ndim != 2 or len(part) != len(batch):
            raise DataError(
                f"encoder {encoder.spec} returned features {list(part.shape)} for {len(batch)} "
                "samples; it must return a row for each"
            )
        parts.append(part)
        progress(last, len(batches))
    return np.asarray(torch.cat(parts).numpy(), np.float32)


def _read(path: Path, rows: int) -> Features | None:
    """Map a file; None where it is absent or not what was written."""
    try:
        part = np.lib.format.open_memmap(path, mode="r")  # never a pickle
    except (OSError, ValueError, EOFError):
        return None
    good = part.dtype == np.float32 and part.ndim == 2 and len(part) == rows
    return part if good else None


def _write(path: Path, part: Any) -> None:
    def save(temporary: Path) -> None:
        with temporary.open("wb") as file:  # by its name, numpy would add a suffix
            np.save(file, part, allow_pickle=False)

    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # features tell about samples
        write_atomically(path, save)
    except (OSError, FedsiftError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise DataError(
            f"features cannot be kept in {path.parent} ({reason}); set {VARIABLE} to a folder with "
            "space that can be written to"
        ) from error
