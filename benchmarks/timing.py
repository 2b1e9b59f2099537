"""Ratios of times, robust against a machine that is now fast, now slow."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


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
