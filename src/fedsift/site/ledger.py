"""What a site remembers of what it was asked: on disk, and never taken back.

<folder>/runs.json              when runs began, and which the owner has approved
<folder>/<run>/asked.json       rounds, products and the place in the method's sequence
<folder>/<run>/secret           what the run's batches are drawn with (mode 600)
<folder>/<run>/proposal.json    the settings of a run that waits for its owner
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedsift.client.guard import Asked
from fedsift.errors import InputError, Refused
from fedsift.files import write_text

DAY = 24 * 3600.0
RUNS, ASKED, SECRET, PROPOSAL = "runs.json", "asked.json", "secret", "proposal.json"


@dataclass(frozen=True)
class Ledger:
    """The ledger of a site's folder."""

    folder: Path
    clock: Callable[[], float] = time.time

    def asked(self, run: str) -> Asked:
        """Return what was asked in a run so far."""
        found = _read(self.folder / run / ASKED)
        once = {name: tuple(digests) for name, digests in found.pop("once", {}).items()}
        return Asked(**found, once=once)

    def keep(self, run: str, asked: Asked) -> None:
        """Remember what was asked, before it is answered."""
        write_text(self.folder / run / ASKED, json.dumps(asdict(asked)))

    def begin(self, run: str, most: int) -> None:
        """Count a run that begins; refuse one too many within a day."""
        known = _read(self.folder / RUNS)
        begun: dict[str, float] = known.get("begun", {})
        if run in begun:
            return
        recent = [name for name, when in begun.items() if when > self.clock() - DAY]
        if len(recent) >= most:
            raise Refused(f"the site's policy allows {most} runs within 24 hours; try again later")
        self._write({**known, "begun": {**begun, run: self.clock()}})

    def approved(self, run: str, settings: Mapping[str, Any]) -> bool:
        """Tell whether the owner has said yes to a run with these settings."""
        said = _read(self.folder / RUNS).get("approved", {})
        return bool(said.get(run) == _text(settings))

    def propose(self, run: str, settings: Mapping[str, Any]) -> None:
        """Keep the settings of a run for its owner to see."""
        write_text(self.folder / run / PROPOSAL, json.dumps(dict(settings), indent=2) + "\n")

    def proposals(self) -> dict[str, dict[str, Any]]:
        """Return the runs that wait for the owner, by name."""
        paths = sorted(self.folder.glob(f"*/{PROPOSAL}"))
        found = {path.parent.name: _read(path) for path in paths}
        return {run: s for run, s in found.items() if not self.approved(run, s)}

    def approve(self, run: str) -> None:
        """Say yes to a run as it was proposed."""
        waiting = self.proposals()
        if run not in waiting:
            names = ", ".join(waiting) or "none"
            raise InputError(f"no run '{run}' waits for approval; these do: {names}")
        known = _read(self.folder / RUNS)
        approved = {**known.get("approved", {}), run: _text(waiting[run])}
        self._write({**known, "approved": approved})

    def secret(self, run: str) -> str:
        """Return the secret of a run; it is drawn when the run begins."""
        path = self.folder / run / SECRET
        if not path.exists():
            write_text(path, os.urandom(16).hex())
            path.chmod(0o600)
        return path.read_text(encoding="utf-8")

    def _write(self, known: Mapping[str, Any]) -> None:
        write_text(self.folder / RUNS, json.dumps(dict(known), indent=1) + "\n")


def _text(settings: Mapping[str, Any]) -> str:
    return json.dumps(dict(settings), sort_keys=True)


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}); restore it from a copy") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} is not what a site writes; restore it from a copy")
    return found
