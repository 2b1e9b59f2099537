"""Sites whose samples do not fit: memory and time of a round, and pictures against a DataLoader.

``site_1e6_*``     10^6 x 1,280 features in a file, `single-loop` with a linear model at its
                   defaults: peak memory above the interpreter with fedsift and torch imported
                   (RssAnon), and the processor's time of a round over that at 10^5
``pictures_*``     PNG files, 64 x 64 grey: samples a second of the processor in local steps of
                   FedAvg over those of a plain loop over ``torch.utils.data.DataLoader``, same
                   network, batches, number of steps; one thread each

The features are a file of zeros, which the system does not store; reading it costs what any cached
file costs.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import fedsift as fs
import fedsift.experiment.loop as rounds_loop
from fedsift.problem.networks import build_model

WIDTH, SIDE, PICTURES, STEPS, BATCH = 1280, 64, 2000, 25, 64


def measure() -> dict[str, float]:
    """Train in processes of their own, so that peaks are theirs."""
    out: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        small, large = (_in_process("site", str(n), folder) for n in (10**5, 10**6))
        out["site_1e6_peak_gb"] = large["peak"] / 1e9
        out["site_1e5_peak_gb"] = small["peak"] / 1e9
        out["site_1e6_round_over_1e5"] = large["round"] / small["round"]
    with tempfile.TemporaryDirectory() as folder:
        out |= pictures(Path(folder))
    return out


def _in_process(*arguments: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.big_data", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(zip(("peak", "round"), map(float, done.stdout.split()[-2:]), strict=True))


def main(arguments: list[str]) -> None:
    """Print peak and seconds of a round for a site with so many samples."""
    _, count, folder = arguments
    print(*site(int(count), Path(folder)))


def site(count: int, folder: Path) -> tuple[float, float]:
    """Return the peak of the memory in bytes, and the median seconds of a round."""
    place = folder / str(count)
    for name, samples in (("clean", 500), ("site", count)):
        where = place / name
        where.mkdir(parents=True)
        mapped = np.lib.format.open_memmap(where / "inputs.npy", "w+", np.float32, (samples, WIDTH))
        del mapped
        np.save(where / "labels.npy", np.random.default_rng(0).integers(10, size=samples))
    rounds_loop.time = SimpleNamespace(perf_counter=time.process_time)  # type: ignore[assignment]
    torch.func.jvp(torch.sin, (torch.ones(1),), (torch.ones(1),))  # loads much of torch
    before, peak = _held(), Peak()
    with peak:
        clean = fs.read(place / "clean")
        federation = fs.simulate(nn.Linear(WIDTH, 10), {"a": fs.read(place / "site")}, clean)
        result = fs.fit(federation, "single-loop", rounds=4, device="cpu", inner_lr=0.1)
    return peak.most - before, float(result.history["seconds"][1:].median())


class Peak:
    """Look at the memory of this process every 5 ms."""

    def __init__(self) -> None:
        self.most, self._done = 0, Event()
        self._thread = Thread(target=self._watch)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self.most = max(self.most, _held())


def _held() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return 0


class Pngs(Dataset[tuple[Tensor, int]]):
    """The files of a folder of classes, decoded by Pillow."""

    def __init__(self, folder: Path) -> None:
        self.files = sorted(folder.glob("*/*.png"))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Decode and standardise one."""
        with Image.open(self.files[index]) as picture:
            pixels = torch.from_numpy(np.array(picture, dtype=np.float32))
        return (pixels / 255 - 0.5)[None] / 0.29, int(self.files[index].parent.name)


def pictures(folder: Path) -> dict[str, float]:
    """Train on the same files both ways, in turn."""
    values = np.random.default_rng(0)
    for name, count in (("site", PICTURES), ("clean", 100)):
        for n in range(count):
            place = folder / name / str(n % 10)
            place.mkdir(parents=True, exist_ok=True)
            pixels = values.integers(256, size=(SIDE, SIDE), dtype=np.uint8)
            Image.fromarray(pixels).save(place / f"{n}.png")
    samples, clean = fs.read(folder / "site"), fs.read(folder / "clean")
    rounds_loop.time = SimpleNamespace(perf_counter=time.process_time)  # type: ignore[assignment]
    ratios = []
    for _ in range(3):
        federation = fs.simulate("cnn", {"a": samples}, clean)
        keys: dict[str, Any] = {"local_steps": STEPS, "batch_size": BATCH, "inner_lr": 0.01}
        result = fs.fit(federation, "fedavg", rounds=2, device="cpu", **keys)
        ours = float(result.history["seconds"].iloc[-1])
        ratios.append(_plain(folder / "site") / ours)
    ratios.sort()
    return {
        "pictures_rate_over_dataloader": statistics.median(ratios),
        "pictures_rate_over_dataloader_low": ratios[0],
        "pictures_rate_over_dataloader_high": ratios[-1],
    }


def _plain(folder: Path) -> float:
    """Return the seconds of as many steps of a plain loop."""
    model = build_model("cnn", (1, SIDE, SIDE), 10, 0)
    optimiser = torch.optim.SGD(model.parameters(), 0.01)
    batches = iter(DataLoader(Pngs(folder), BATCH, shuffle=True))
    start = time.process_time()
    for _ in range(STEPS):
        inputs, labels = next(batches)
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimiser.step()
    return time.process_time() - start


if __name__ == "__main__":
    main(sys.argv[1:])
