"""What a person decided, saved at once: one line of ``decisions.jsonl`` per decision.

    {"sequence": 7, "index": 12, "version": 1, "action": "relabel", "label": 3, ...}

The file only grows, and every line is on disk before the page gets its reply; a line that a crash
cut off got no reply and is dropped. ``version`` counts the decisions on one sample: a tab that
has not seen the latest one is refused, so that it cannot overwrite it. Undo is a line too: it puts
back what was before. One process at a time holds the file.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO, Any

from fedsift.errors import InputError

if sys.platform != "win32":
    import fcntl

ACTIONS = ("keep", "accept", "relabel", "unusable")
NONE = "none"


@dataclass(frozen=True)
class Decision:
    """The state of one sample; ``label`` is the class it now has, None where it has none."""

    index: int
    version: int
    action: str = NONE
    label: int | None = None


class Conflict(InputError):  # noqa: N818 - reads as a fact
    """Another tab has decided on this sample in between."""

    def __init__(self, current: Decision) -> None:
        super().__init__(f"sample {current.index} was decided in another tab; check it again")
        self.current = current


class Decisions:
    """The decisions on one site's samples."""

    def __init__(self, path: Path, samples: int) -> None:
        self.path, self.samples = path, samples
        self._current: dict[int, Decision] = {}
        self._history: dict[int, list[Decision]] = {}
        self._made: list[tuple[int, int, str]] = []  # (index, version, tab), undone ones removed
        self._lock = Lock()
        self._sequence = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[bytes] = path.open("a+b")
        self._hold()
        try:
            for event in self._read():
                self._apply(event)
        except InputError:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def of(self, index: int) -> Decision:
        """Return the state of a sample."""
        return self._current.get(index, Decision(index, 0))

    @property
    def decided(self) -> list[Decision]:
        """All samples that have a decision now."""
        return [d for d in self._current.values() if d.action != NONE]

    @property
    def touched(self) -> list[Decision]:
        """All samples that were ever decided on, undone ones too."""
        return list(self._current.values())

    def decide(
        self, index: int, version: int, action: str, label: int | None, tab: str
    ) -> Decision:
        """Save a decision on a sample whose latest version the caller has seen."""
        if action not in ACTIONS:
            raise InputError(f"there is no action {action!r}; choose one of {', '.join(ACTIONS)}")
        if not 0 <= index < self.samples:
            raise InputError(f"there is no sample {index}; samples are 0 to {self.samples - 1}")
        with self._lock:
            now = self.of(index)
            if now.version != version:
                raise Conflict(now)
            return self._save(Decision(index, version + 1, action, label), tab)

    def undo(self, tab: str) -> Decision | None:
        """Put back what was before this tab's last decision, or else before the last of all."""
        with self._lock:
            standing = [m for m in self._made if self.of(m[0]).version == m[1]]
            own = [m for m in standing if m[2] == tab] or standing
            if not own:
                return None
            index = own[-1][0]
            before = self._history[index][-2] if len(self._history[index]) > 1 else None
            action, label = (before.action, before.label) if before else (NONE, None)
            version = self.of(index).version + 1
            return self._save(Decision(index, version, action, label), tab, undo=True)

    def _save(self, decision: Decision, tab: str, *, undo: bool = False) -> Decision:
        event = {
            "sequence": self._sequence + 1,
            "index": decision.index,
            "version": decision.version,
            "action": decision.action,
            "label": decision.label,
            "undo": undo,
            "tab": tab,
            "time": round(time.time(), 3),
        }
        self._file.write(json.dumps(event).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._apply(event)
        return decision

    def _apply(self, event: dict[str, Any]) -> None:
        decision = Decision(event["index"], event["version"], event["action"], event["label"])
        index, past = decision.index, self._history.setdefault(decision.index, [])
        if event["undo"]:  # what was undone is forgotten: the next undo goes one further back
            past.pop()
            undone = [n for n, made in enumerate(self._made) if made[0] == index][-1]
            self._made.pop(undone)
            earlier = [n for n, made in enumerate(self._made) if made[0] == index]
            if earlier:
                tab = self._made[earlier[-1]][2]
                self._made[earlier[-1]] = (index, decision.version, tab)
        else:
            past.append(decision)
            self._made.append((index, decision.version, event["tab"]))
        self._current[index] = decision
        self._sequence = event["sequence"]

    def _read(self) -> Iterator[dict[str, Any]]:
        self._file.seek(0)
        data = self._file.read()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            self._file.truncate(whole)
        for number, line in enumerate(data[:whole].splitlines(), start=1):
            try:
                event = json.loads(line)
                fits = 0 <= event["index"] < self.samples
            except (ValueError, KeyError, TypeError):
                fits = False
            if not fits:
                raise InputError(
                    f"{self.path}, line {number}, is not a decision on this site; move the file "
                    "away"
                )
            yield event

    def _hold(self) -> None:
        if sys.platform == "win32":
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise InputError(
                f"{self.path} is open in another review; close that one first"
            ) from None
