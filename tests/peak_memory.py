"""Train on stored samples in a process of its own; print the peak of its memory in bytes.

python peak_memory.py {mapped,held,pictures} SAMPLES FOLDER    ("held" reads the mapped file whole)

The measure is RssAnon of /proc/self/status, every 2 ms: memory that the process itself holds. Pages
of a mapped file are not in it, since the system keeps them only while nobody needs the room.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

import fedsift as fs
from fedsift.problem.inputs import StoredInputs

WIDTH, SIDE = 1280, 64


class Pictures:
    """Grey PNG files in a folder, one per sample."""

    dtype = torch.float32

    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.count = folder, count
        values = np.random.default_rng(0)
        for n in range(count):
            pixels = values.integers(256, size=(SIDE, SIDE), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{n}.png", compress_level=1)

    def __len__(self) -> int:
        return self.count

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.count, 1, SIDE, SIDE)

    def take(self, indices: Tensor) -> Tensor:
        found = np.empty((len(indices), 1, SIDE, SIDE), np.float32)
        for place, index in enumerate(indices.tolist()):
            with Image.open(self.folder / f"{index}.png") as picture:
                found[place, 0] = picture
        return torch.from_numpy(found / 255)


def inputs(kind: str, count: int, folder: Path) -> np.ndarray | StoredInputs:
    """Return samples; a mapped file of zeros takes no room on disk."""
    if kind == "pictures":
        return Pictures(folder, count)
    path = folder / "inputs.bin"
    with path.open("wb") as file:
        file.truncate(count * WIDTH * 4)
    mapped = np.memmap(path, np.float32, "r", shape=(count, WIDTH))
    return np.array(mapped) if kind == "held" else mapped


@contextmanager
def watched(peak: list[int]) -> Iterator[None]:
    """Put the largest RssAnon into ``peak``."""
    done = Event()

    def watch() -> None:
        while not done.wait(0.002):
            lines = Path("/proc/self/status").read_text().splitlines()
            found = next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
            peak[0] = max(peak[0], 1024 * found)

    thread = Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def main(kind: str, count: int, folder: Path) -> None:
    """Train a linear head for two rounds."""
    torch.set_num_threads(1)
    samples, labels, peak = inputs(kind, count, folder), torch.arange(count) % 3, [0]
    head = nn.Linear(WIDTH, 3)
    if kind == "pictures":
        head = nn.Sequential(nn.Flatten(), nn.Linear(SIDE**2, 3))
    with watched(peak):
        clean = torch.randn(60, *samples.shape[1:]), torch.arange(60) % 3
        federation = fs.simulate(head, [(samples, labels)], clean)
        fs.fit(federation, "single-loop", rounds=2, device="cpu")
    sys.stdout.write(f"{peak[0]}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
