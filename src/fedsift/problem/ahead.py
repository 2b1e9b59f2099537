"""Reading ahead: what comes next is read while what came is used, and many files at once.

By threads: reading a file, and decoding a picture, leave the interpreter to others. As many as
torch computes with, so that whoever limits the one limits the other; with one thread, one after the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

Key = TypeVar("Key")
Value = TypeVar("Value")
FEW = 8  # below, threads cost more than they save


def concurrent(inputs: object) -> bool:
    """Tell if stored inputs may be read by another thread: ours say so, a user's own need not."""
    return bool(getattr(inputs, "concurrent", False))


def one_ahead(read: Callable[[Key], Value], keys: Iterable[Key]) -> Iterator[Value]:
    """Yield what is read for each key, in order, the next one on its way."""
    if torch.get_num_threads() < 2:
        yield from map(read, keys)
        return
    with ThreadPoolExecutor(1, "fedsift-ahead") as reader:
        pending: Future[Value] | None = None
        for key in keys:
            last, pending = pending, reader.submit(read, key)
            if last is not None:
                yield last.result()
        if pending is not None:
            yield pending.result()


def at_once(work: Callable[[int], None], count: int) -> None:
    """Do work(0), ..., work(count - 1), in any order; the first error is raised."""
    threads = min(torch.get_num_threads(), count // FEW)
    if threads < 2:
        for place in range(count):
            work(place)
        return

    def share(start: int) -> None:
        for place in range(start, count, threads):
            work(place)

    with ThreadPoolExecutor(threads, "fedsift-decode") as pool:
        for done in [pool.submit(share, start) for start in range(threads)]:
            done.result()
