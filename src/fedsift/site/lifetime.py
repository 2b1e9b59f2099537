"""Which process has a site's folder, and when it ends: with the one that started it, or when told.

Only the standard library, as in ``calling``.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from fedsift.errors import RunError

LOCK = "site.lock"
GRACE = 20.0  # seconds for a site to end by itself before it is killed


def end_with_parent() -> None:
    """Have the kernel terminate this process when its parent has ended (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def stop(folder: Path, grace: float = GRACE) -> None:
    """Terminate the process that has the folder, if there is one; wait until it has ended."""
    start, sent = time.monotonic(), None
    while folder.exists():
        lock = claim(folder, mark=False)
        if lock is not None:
            lock.close()
            return
        passed = time.monotonic() - start
        text = (folder / LOCK).read_text(encoding="utf-8")
        if passed > 2 * grace:
            raise RunError(
                f"{folder} is still in use (process {text or 'unknown'}); terminate that process"
            )
        wanted = signal.SIGKILL if passed > grace else signal.SIGTERM
        if text.isdigit() and sent != wanted:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(int(text), wanted)
            sent = wanted
        time.sleep(0.1)


def claim(folder: Path, *, mark: bool = True) -> IO[str] | None:
    """Lock the folder until this process ends, however it ends; None if another has it."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    file = (folder / LOCK).open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    if mark:
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
    return file
