"""A site's journal of one run: one file per request, complete or absent.

    <run>/journal/<round>-<number>.safetensors

A file holds the state AFTER the request, the versioned arrays kept for later differences, and the
reply. The newest file is the site's state; an older one is where it returns to when the
server resumes from a checkpoint. Files of all but the last ``KEEP`` rounds are dropped, so the
server may be that many rounds behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedsift import sealed
from fedsift.client import ClientState
from fedsift.errors import InputError
from fedsift.federation.encoding import Kept, Parts

KEEP = 2
Key = tuple[int, int]
_STATE = tuple(f.name for f in fields(ClientState))


@dataclass(frozen=True, eq=False)
class Entry:
    """One request: its key (round, number), its digest, the reply, and the state after it.

    ``index`` counts the requests of the run; the journal sets it.
    """

    key: Key
    digest: str
    answer: Parts
    state: ClientState
    kept: Mapping[str, Kept] = field(default_factory=dict)
    index: int = 0


class Journal:
    """The entries of one run, oldest first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._entries = [_read(path) for path in sorted(folder.glob("*.safetensors"))]

    @property
    def last(self) -> Entry | None:
        """The newest entry."""
        return self._entries[-1] if self._entries else None

    def find(self, key: Key) -> Entry | None:
        """Return the entry of a request, if it is still kept."""
        return next((e for e in reversed(self._entries) if e.key == key), None)

    def append(self, entry: Entry) -> None:
        """Write an entry, then drop entries that no resume can need."""
        entry = replace(entry, index=0 if self.last is None else self.last.index + 1)
        path = self._path(entry.key)
        _write(path, entry)
        self._entries.append(entry)
        rounds = sorted({e.key[0] for e in self._entries})
        oldest = rounds[-KEEP - 1 :][0]
        self._drop([e for e in self._entries if e.key[0] < oldest])

    def rewind(self, next_round: int) -> None:
        """Return to the state before ``next_round``."""
        late = [e for e in self._entries if e.key[0] >= next_round]
        nothing_left = len(late) == len(self._entries)
        if late and nothing_left and late[0].index > 0:
            raise InputError(
                f"the site is at round {late[-1].key[0] + 1} and cannot return to round "
                f"{next_round + 1}; start a new run"
            )
        self._drop(late)

    def _drop(self, entries: list[Entry]) -> None:
        for entry in reversed(entries):
            self._path(entry.key).unlink(missing_ok=True)
        self._entries = [e for e in self._entries if e not in entries]

    def _path(self, key: Key) -> Path:
        return self.folder / f"{key[0]:06d}-{key[1]:04d}.safetensors"


def _write(path: Path, entry: Entry) -> None:
    named = {f"state/{name}": getattr(entry.state, name) for name in _STATE}
    named |= {f"kept/{name}": kept.value for name, kept in entry.kept.items()}
    tensors = {n: v for n, v in named.items() if isinstance(v, Tensor)}
    tensors |= {
        f"answer/{name}": torch.from_numpy(np.frombuffer(data, np.uint8).copy())
        for name, data in entry.answer.items()
    }
    meta = {
        "key": entry.key,
        "index": entry.index,
        "digest": entry.digest,
        "versions": {name: kept.version for name, kept in entry.kept.items()},
    }
    sealed.save(path, tensors, meta)
    path.chmod(0o600)


def _read(path: Path) -> Entry:
    try:
        tensors, meta = sealed.load(path, "a site's journal")
    except InputError as error:
        raise InputError(f"{error}; move it away and start a new run") from None

    def group(name: str) -> dict[str, Tensor]:
        start = f"{name}/"
        return {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}

    return Entry(
        key=(meta["key"][0], meta["key"][1]),
        index=meta["index"],
        digest=meta["digest"],
        answer={n: t.numpy().tobytes() for n, t in group("answer").items()},
        state=ClientState(**group("state")),
        kept={n: Kept(t, meta["versions"][n]) for n, t in group("kept").items()},
    )
