"""A command as a process of its own, which goes on when the terminal is closed, and its helpers.

OUT/queue.pid    held by the process in the background, with its number
OUT/queue.log    what it prints
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fedsift.errors import RunError
from fedsift.files import cannot_write, hold, owner

INSIDE = "--in-background"
START = 60.0  # seconds in which it must have begun
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def pid_of(out: Path) -> Path:
    """Return the file that the process in the background holds."""
    return out / "queue.pid"


def log_of(out: Path) -> Path:
    """Return the file that it prints into."""
    return out / "queue.log"


def start(arguments: Sequence[str], out: Path) -> int:
    """Start the same command in the background; return its process once it has begun."""
    with hold(pid_of(out), "choose another folder with --out"):  # refuses a second one
        pass
    try:
        log = log_of(out).open("ab")
    except OSError as error:
        raise cannot_write(log_of(out), error) from None
    words = [INSIDE if word == "--background" else word for word in arguments]
    with log:
        process = subprocess.Popen(
            [sys.executable, "-m", "fedsift", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    end = time.monotonic() + START
    while owner(pid_of(out)) != process.pid and process.poll() is None:
        if time.monotonic() > end:
            break
        time.sleep(0.1)
    if process.poll() not in (None, 0):
        raise RunError(f"the process in the background has ended; {log_of(out)} says why")
    process.returncode = 0  # it outlives this one, which does not wait for it
    return process.pid


@contextmanager
def being(inside: bool, out: Path) -> Iterator[None]:
    """Be the process in the background, if this is it."""
    with ExitStack() as stack:
        if inside:
            stack.enter_context(hold(pid_of(out), "choose another folder with --out"))
        yield


@contextmanager
def helpers(count: int, arguments: Sequence[str]) -> Iterator[None]:
    """Run the same command in other processes too, each with one thread; wait for them."""
    words = [word for word in arguments if word not in {"--background", INSIDE}]
    command = [sys.executable, "-m", "fedsift", *words, "--jobs", "1", "--no-draw"]
    started = [
        subprocess.Popen(command, env={**os.environ, **ONE_THREAD}, stdin=subprocess.DEVNULL)
        for _ in range(count)
    ]
    try:
        yield
    finally:
        for process in started:
            process.wait()
