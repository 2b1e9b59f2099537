"""Files that are complete or absent: written beside the target, then renamed to it.

``hold`` keeps a second process from writing where one already does.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from fedsift.errors import InputError

if sys.platform != "win32":
    import fcntl


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a temporary file in the same folder, then put it in place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_atomically(path, lambda temporary: _write(temporary, text))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def absolute(path: str) -> str:
    """Return a path that is right from any folder; ``module:function`` stays."""
    return str(Path(path).absolute()) if path and Path(path).exists() else path


@contextmanager
def hold(path: Path, advice: str = "choose another folder") -> Iterator[None]:
    """Hold a lock file until the block ends, or the process does; refuse if another has it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = _locked(path)
    except OSError as error:
        raise InputError(f"cannot write to {path.parent} ({error.strerror}); {advice}") from None
    if file is None:
        owner = path.read_text(encoding="utf-8")
        raise InputError(
            f"{path.parent} is in use by process {owner or 'unknown'}; wait until it has ended, or "
            f"{advice}"
        )
    with file:
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)  # while it is held: whoever waits looks again


def _locked(path: Path) -> IO[str] | None:
    """Return the locked file; None if another process has it."""
    while True:
        file = path.open("a+", encoding="utf-8")
        if sys.platform == "win32":
            return file
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        try:
            if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                return file
        except FileNotFoundError:  # its last owner has removed it in between
            pass
        file.close()
