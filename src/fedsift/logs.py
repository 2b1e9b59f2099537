"""What a command that stays says, and the logs of the programs it runs.

Lines have the time (UTC) and no colour codes. A log is renamed to ``.1``, ``.2`` ... when it is
large, and the oldest is dropped.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

LARGEST = 5 * 2**20  # bytes of a log before it is renamed
KEEP = 3
_CODES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


def say(text: str, *, show: bool = True) -> None:
    """Print a line with the time, for the person at the terminal or the system's journal."""
    if show:
        print(f"{_now()} {text}", file=sys.stderr, flush=True)


def rotate(path: Path, largest: int = LARGEST) -> None:
    """Rename a log that is large, and drop the oldest."""
    if not path.exists() or path.stat().st_size <= largest:
        return
    for n in range(KEEP, 0, -1):
        older = path.with_name(f"{path.name}.{n}")
        newer = path if n == 1 else path.with_name(f"{path.name}.{n - 1}")
        if newer.exists():
            newer.replace(older)


class PlainLog:
    """Writes what a program prints: a time before each line, no colour codes, large files renamed.

    Complete lines are written; what comes without an end of line waits for it.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._rest = path, b""

    def write(self, data: bytes) -> None:
        """Add what was printed."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._write(lines)

    def close(self) -> None:
        """Write what has no end of line."""
        self._write([self._rest] if self._rest else [])
        self._rest = b""

    def _write(self, lines: list[bytes]) -> None:
        plain = [_CODES.sub(b"", line).rstrip() for line in lines]
        kept = [line for line in plain if line]
        if kept:
            rotate(self.path)
            stamp = _now().encode()
            with self.path.open("ab") as file:
                file.write(b"".join(stamp + b" " + line + b"\n" for line in kept))


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime())
