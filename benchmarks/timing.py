"""Ratios of times, robust against a machine that is now fast, now slow."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple


def seconds(work: Callable[[], object]) -> float:
    """Return how long one call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return how much time of the processor one call takes, which a busy machine hardly changes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def ratio(
    above: Callable[[], object], below: Callable[[], object], repeats: int = 7, warm_up: int = 1
) -> float:
    """Return the median of above / below, the two timed in turn."""
    for _ in range(warm_up):
        above()
        below()
    return statistics.median(seconds(above) / seconds(below) for _ in range(repeats))


class Spread(NamedTuple):
    """The median of repeats, and the range."""

    median: float
    least: float
    most: float


def processor_seconds(work: Callable[[], object]) -> float:
    """Return the processor's time for one call: other processes hardly disturb it."""
    start = time.process_time()
    work()
    return time.process_time() - start


def ratios(
    works: Mapping[str, Callable[[], object]],
    below: Callable[[], object],
    repeats: int,
    warm_up: int = 2,
) -> dict[str, Spread]:
    """Return each work's processor time over that of ``below``, all timed in turn."""
    for _ in range(warm_up):
        for work in (below, *works.values()):
            work()
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        base = processor_seconds(below)
        for name, work in works.items():
            found[name].append(processor_seconds(work) / base)
    return {n: Spread(statistics.median(v), min(v), max(v)) for n, v in found.items()}
