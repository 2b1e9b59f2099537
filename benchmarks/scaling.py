"""How seconds and memory of a round grow: clients, cohort, parameters, iterations, sketch size.

Every point is a process of its own. It loads all libraries by two rounds of a tiny run, builds its
random 8x8 images, and takes what memory it has then as the baseline; it then builds the run and
does ``WARM_UP`` rounds and ``TIMED`` rounds more.

    seconds     median of the timed rounds, in seconds of the one core it uses
    peak_mb     largest resident memory of the process from the baseline on
    beyond_mb   peak_mb less the baseline: what the run itself needs

For each sweep the exponent b of c n^b is fitted to seconds and to beyond_mb by least squares in
logarithms. A part of a round that does not grow with n pulls b below that of the part that does.
Seconds are those of the processor: on a quiet machine they are the clock's, because nothing waits
and there is one thread; a busy machine disturbs them too, but far less than the clock.

python -m benchmarks.scaling d 10000        one point, as JSON
"""

from __future__ import annotations

import gc
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.rounds import Runner
from fedsift.data import ClientData, FederatedData
from fedsift.experiment.config import Config, read_by
from fedsift.experiment.paper_grid import PINNED
from fedsift.experiment.setup import from_data
from fedsift.files import write_text
from fedsift.randomness import generator

ROOT = Path(__file__).parents[1]
OUT = ROOT / "results" / "scaling.json"
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
WARM_UP, TIMED = 2, 5
VALIDATION = 50
RESOLUTION_MB = 1.0  # less than this is the allocator's, not the run's


@dataclass(frozen=True)
class Case:
    """A run of one size; ``keys`` are those of the configuration that differ from the default."""

    method: str = "single-loop"
    clients: int = 10
    samples: int = 50
    d: int = 10**4
    keys: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Sweep:
    """Runs that differ in one size n."""

    sizes: tuple[int, ...]
    case: Callable[[int], Case]


SWEEPS = {
    "clients": Sweep((10, 100, 1_000, 10_000), lambda n: Case(clients=n, keys={"cohort": 10})),
    "cohort": Sweep((5, 10, 20, 40, 80), lambda n: Case(clients=100, keys={"cohort": n})),
    "d": Sweep(
        (10**4, 10**5, 10**6, 10**7),
        lambda n: Case(
            clients=3,
            samples=16,
            d=n,
            keys={"batch_size": 8, "curvature_batch": 8, "compressor": "count-sketch"},
        ),
    ),
    "iterations": Sweep(
        (1, 2, 5, 10), lambda n: Case("iter-sketch", d=10**5, keys={"iterations": n})
    ),
    "r1": Sweep(
        (4, 8, 16, 32, 64), lambda n: Case("non-iter", d=10**5, keys={"r1": n, "r2": 2 * n})
    ),
}


@dataclass(frozen=True)
class Point:
    """What one process measured."""

    sweep: str
    n: int
    seconds: float
    peak_mb: float
    beyond_mb: float


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the b of the c n^b that is nearest to the values, by least squares in logarithms."""
    return statistics.linear_regression([*map(math.log, sizes)], [*map(math.log, values)]).slope


def measure() -> dict[str, float]:
    """Measure all points, write results/scaling.json, return the exponents."""
    points = [_in_process(name, n) for name, sweep in SWEEPS.items() for n in sweep.sizes]
    exponents = {}
    for name in SWEEPS:
        own = [p for p in points if p.sweep == name]
        sizes = [p.n for p in own]
        exponents[f"scaling_{name}_seconds_exponent"] = exponent(sizes, [p.seconds for p in own])
        exponents[f"scaling_{name}_memory_exponent"] = exponent(sizes, [p.beyond_mb for p in own])
    content = {
        "points": [asdict(p) for p in points],
        "exponents": {key: round(value, 4) for key, value in exponents.items()},
        "machine": f"{platform.machine()}, 1 thread, torch {torch.__version__}",
        "date": datetime.now(UTC).date().isoformat(),
    }
    write_text(OUT, json.dumps(content, indent=2) + "\n")
    return exponents


def _in_process(sweep: str, n: int) -> Point:
    command = [sys.executable, "-m", "benchmarks.scaling", sweep, str(n)]
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=one_thread, stdout=subprocess.PIPE, text=True, check=True
    )
    point = Point(**json.loads(done.stdout))
    print(f"  {sweep:12}{n:10}{point.seconds:10.3f} s{point.beyond_mb:10.1f} MB", flush=True)
    return point


def point(name: str, n: int) -> Point:
    """Measure one point in this process."""
    case = SWEEPS[name].case(n)
    tiny = replace(case, clients=min(case.clients, 100), samples=4, d=1000)
    _rounds(tiny, random_data(tiny), WARM_UP)
    data = random_data(case)
    gc.collect()
    CLEAR.write_text("5")  # the peak starts anew
    before = _status_mb("VmRSS")
    times = _rounds(case, data, WARM_UP + TIMED)[WARM_UP:]
    peak = _status_mb("VmHWM")
    beyond = max(peak - before, RESOLUTION_MB)
    return Point(name, n, round(statistics.median(times), 5), round(peak, 1), round(beyond, 1))


def random_data(case: Case) -> FederatedData:
    """Return clients with random 8x8 images and labels."""
    source = generator(0, "benchmark")
    count = case.clients * case.samples
    images = torch.split(torch.randn(count, 1, 8, 8, generator=source), case.samples)
    labels = torch.split(torch.randint(10, (count,), generator=source), case.samples)
    rows = torch.arange(case.samples)
    parts = zip(images, labels, strict=True)
    members = [ClientData(*part, None, rows) for part in parts]
    few = (torch.randn(VALIDATION, 1, 8, 8, generator=source), torch.arange(VALIDATION) % 10)
    return FederatedData("random", members, few, few, tuple("0123456789"))


def perceptron(d: int) -> nn.Module:
    """Return 64 - w - w - 10 units, with the w that brings w² + 76 w + 10 nearest to d."""
    w = max(1, round(math.sqrt(d + 1434) - 38))
    with torch.device("meta"):
        model = nn.Sequential(
            nn.Flatten(), nn.Linear(64, w), nn.ReLU(), nn.Linear(w, w), nn.ReLU(), nn.Linear(w, 10)
        )
    model.to_empty(device="cpu")
    source = generator(0, "model")
    for weights in model.parameters():
        nn.init.normal_(weights, std=weights.shape[-1] ** -0.5, generator=source)
    return model


def _rounds(case: Case, data: FederatedData, count: int) -> list[float]:
    """Return the seconds of each round."""
    keys = {**read_by(case.method, PINNED), "inner_lr": 0.01, "head_start": 0, **case.keys}
    config = Config.of(method=case.method, **keys)
    setup = from_data(config, data, perceptron(case.d))
    run = Runner(setup, setup.initial_state())
    times = []
    for _ in range(count):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return times


def _status_mb(name: str) -> float:
    """Return a line of /proc/self/status: ru_maxrss would start at the peak of the parent."""
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return int(lines[name].split()[0]) * 1024 / 1e6


if __name__ == "__main__":
    print(json.dumps(asdict(point(sys.argv[1], int(sys.argv[2])))))
