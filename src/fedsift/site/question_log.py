"""The log of questions: plain text, one line each, for the owner of a site.

    2026-11-18 14:02:11Z  digits  round 3  train  asked 17,204 bytes, answered 17,010
    2026-11-18 14:02:12Z  digits  round 3  count  asked 800,412 bytes, refused: ...

The file is ``<folder>/questions.log``, mode 600; a full one becomes ``questions.log.1``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedsift.errors import InputError

FILE = "questions.log"
FULL = 16 * 2**20  # bytes
LONGEST = 500  # characters of a sentence


@dataclass(frozen=True)
class QuestionLog:
    """The log of a site's folder."""

    folder: Path
    clock: Callable[[], float] = time.time

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.folder / FILE

    def write(
        self, run: str, round_: int, action: str, asked: int, answered: int, error: str | None
    ) -> None:
        """Add a line."""
        when = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(self.clock()))
        sentence = "" if error is None else " ".join(error.split())[:LONGEST]
        end = f"answered {answered:,}" if error is None else f"refused: {sentence}"
        where = f"{_plain(run)}  round {round_ + 1}  {_plain(action)}"
        line = f"{when}  {where}  asked {asked:,} bytes, {end}\n"
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.path.exists() and self.path.stat().st_size > FULL:
            self.path.replace(self.path.with_suffix(".log.1"))
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line)
        self.path.chmod(0o600)

    def lines(self, last: int = 0) -> list[str]:
        """Return the lines, or the last ones of them."""
        if not self.path.exists():
            raise InputError(f"{self.folder} has no log; no server has asked this site anything")
        found = self.path.read_text(encoding="utf-8").splitlines()
        return found[-last:] if last else found


def _plain(text: str) -> str:
    """Return a word of a message without what could break a line, at a length that can be read."""
    return "".join(c if c.isprintable() else "?" for c in text)[:80]
