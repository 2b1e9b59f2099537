"""What people decided, saved at once: one line of ``decisions.jsonl`` per decision.

    {"sequence": 7, "batch": 6, "index": 12, "version": 1, "action": "relabel", "label": 3,
     "comment": "torn", "by": "ana", "time": 1763480000.1, "tab": "...", "undo": false}

The file only grows, and every line is on disk before the page gets its reply; a line that a crash
cut off got no reply and is dropped. ``version`` counts the decisions on one sample: whoever has
not seen the latest one is refused, so that nobody overwrites what they have not read. Decisions
made together have one ``batch`` and are undone together; undo is a line too: it puts back what was
before. ``check`` is a hash of the line and of all before it. One process at a time holds the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock
from typing import IO, Any

from fedsift.errors import InputError

if sys.platform != "win32":
    import fcntl

NONE, SKIP, UNUSABLE, COMMENT = "none", "skip", "unusable", "comment"
ACTIONS = ("keep", "accept", "relabel", UNUSABLE, SKIP, COMMENT)
LONGEST = 2000  # characters of a comment; a name has at most 80


@dataclass(frozen=True)
class Decision:
    """The state of one sample; ``label`` is the class it now has, None where it has none.

    ``by`` and ``time`` (seconds since 1970) are of the latest decision or comment.
    """

    index: int
    version: int
    action: str = NONE
    label: int | None = None
    comment: str = ""
    by: str = ""
    time: float = 0.0


@dataclass(frozen=True)
class Asked:
    """A decision to save, by someone who has seen ``version``; without a comment the old stays."""

    index: int
    version: int
    action: str
    label: int | None = None
    comment: str | None = None


@dataclass
class _Batch:
    by: str
    tab: str
    versions: dict[int, int] = field(default_factory=dict)  # of each sample, until undone


def _linked(before: str, event: dict[str, Any]) -> str:
    """Return the hash of an event and, by the hash before, of all that came earlier."""
    text = json.dumps({name: value for name, value in event.items() if name != "check"})
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()[:16]


class Decisions:
    """The decisions on one site's samples."""

    def __init__(self, path: Path, samples: int) -> None:
        self.path, self.samples = path, samples
        self.sequence, self._chain = 0, ""
        self._current: dict[int, Decision] = {}
        self._history: dict[int, list[tuple[int, Decision]]] = {}
        self._batches: dict[int, _Batch] = {}
        self._log: list[int] = []  # the sample of every line
        self._lock = Lock()
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
        """All samples that have a decision now; a skipped one has none."""
        return [d for d in self._current.values() if d.action not in {NONE, SKIP}]

    def changes(self, since: int = 0) -> list[Decision]:
        """Return all samples that anyone has touched after a line, as they are now."""
        return [self._current[n] for n in dict.fromkeys(self._log[max(0, since) :])]

    def save(
        self, asked: Sequence[Asked], by: str = "", tab: str = ""
    ) -> tuple[list[Decision], list[Decision]]:
        """Save decisions; return them, and the states that somebody else has changed meanwhile."""
        for one in asked:
            self._check(one)
        if len({one.index for one in asked}) < len(asked):
            raise InputError("a sample is decided twice at once; reload the page")
        with self._lock:
            stale = [self.of(a.index) for a in asked if self.of(a.index).version != a.version]
            late = {decision.index for decision in stale}
            new = [self._next(a, by) for a in asked if a.index not in late]
            self._write(new, by, tab)
            return new, stale

    def undo(self, by: str = "", tab: str = "") -> list[Decision]:
        """Put back what was before this tab's last decisions, or else this person's."""
        with self._lock:
            standing = {b: s for b, batch in self._batches.items() if (s := self._standing(batch))}
            own = [b for b in standing if self._batches[b].tab == tab]
            own = own or [b for b in standing if self._batches[b].by == by]
            if not own:
                return []
            back = [self._before(index, by) for index in standing[own[-1]]]
            self._write(back, by, tab, undo=True)
            return back

    def _check(self, asked: Asked) -> None:
        if asked.action not in ACTIONS:
            raise InputError(
                f"there is no action {asked.action!r}; choose one of {', '.join(ACTIONS)}"
            )
        if not 0 <= asked.index < self.samples:
            raise InputError(
                f"there is no sample {asked.index}; samples are 0 to {self.samples - 1}"
            )
        if len(asked.comment or "") > LONGEST:
            raise InputError(f"a comment has at most {LONGEST} characters; shorten it")

    def _next(self, asked: Asked, by: str) -> Decision:
        now = self.of(asked.index)
        comment = now.comment if asked.comment is None else asked.comment
        action, label = asked.action, asked.label
        if action == COMMENT:
            action, label = now.action, now.label
        when = round(time.time(), 3)
        return Decision(asked.index, now.version + 1, action, label, comment, by, when)

    def _standing(self, batch: _Batch) -> list[int]:
        """Return the samples on which nobody has decided since."""
        return [n for n, version in batch.versions.items() if self.of(n).version == version]

    def _before(self, index: int, by: str) -> Decision:
        past, version = self._history[index], self.of(index).version + 1
        if len(past) < 2:
            return Decision(index, version, by=by, time=round(time.time(), 3))
        old = past[-2][1]
        return Decision(index, version, old.action, old.label, old.comment, old.by, old.time)

    def _write(self, new: Sequence[Decision], by: str, tab: str, *, undo: bool = False) -> None:
        first = self.sequence + 1
        shared = {"batch": first, "tab": tab, "undo": undo, "who": by}
        events = [
            {"sequence": first + n, **asdict(decision), **shared} for n, decision in enumerate(new)
        ]
        for event in events:
            self._chain = event["check"] = _linked(self._chain, event)
        self._file.write(b"".join(json.dumps(event).encode() + b"\n" for event in events))
        self._file.flush()
        os.fsync(self._file.fileno())
        for event in events:
            self._apply(event)

    def _apply(self, event: dict[str, Any]) -> None:
        decision = Decision(**{name: event[name] for name in Decision.__dataclass_fields__})
        index, past = decision.index, self._history.setdefault(decision.index, [])
        if event["undo"]:  # what was undone is forgotten: the next undo goes one further back
            number, _ = past.pop()
            self._batches[number].versions.pop(index)
            if past:
                self._batches[past[-1][0]].versions[index] = decision.version
        else:
            number = event["batch"]
            past.append((number, decision))
            batch = self._batches.setdefault(number, _Batch(event["who"], event["tab"]))
            batch.versions[index] = decision.version
        self._current[index] = decision
        self._log.append(index)
        self.sequence = event["sequence"]

    def _read(self) -> Iterator[dict[str, Any]]:
        self._file.seek(0)
        data = self._file.read()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            self._file.truncate(whole)
        for number, line in enumerate(data[:whole].splitlines(), start=1):
            try:
                event = json.loads(line)
                self._chain = _linked(self._chain, event)
                needed = {*Decision.__dataclass_fields__, "sequence", "batch", "undo", "who", "tab"}
                fits = needed <= event.keys() and 0 <= event["index"] < self.samples
                fits = fits and self._chain == event["check"]
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                fits = False
            if not fits:
                raise InputError(
                    f"{self.path}, line {number}, is not a decision on this site or is damaged; "
                    "move the file away"
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
                f"{self.path} is open in another review; close that one first, or open the "
                "address that it printed"
            ) from None
