"""One mutant in a copy of the sources, and what the guarding tests say.

The sources themselves are never written. Exit codes are pytest's: 0 the mutant survived; 1 or 2
(a failure, an import that fails) it was caught, as it is when the time is up.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from benchmarks.mutation.guarded import ROOT, Guarded
from fedsift.errors import InputError

CAUGHT, SURVIVED = "caught", "survived"
OPTIONS = ("-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--tb=line")


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant, in how many seconds; ``said`` is the end of pytest's output."""

    outcome: str
    seconds: float
    said: str


@dataclass(frozen=True)
class Workspace:
    """A copy of ``src`` for one process at a time; ``stop`` ends the tests that are running."""

    folder: Path
    stop: Event

    @classmethod
    def make(cls, folder: Path, stop: Event) -> Workspace:
        """Copy the sources."""
        leftovers = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / "src", folder / "src", ignore=leftovers)
        return cls(folder, stop)

    def attempt(self, row: Guarded, source: str, limit: float) -> Verdict:
        """Put a source in the module's place, run the tests, put the true one back."""
        place = self.folder / "src" / "fedsift" / row.module
        truth = place.read_bytes()
        try:
            place.write_text(source, encoding="utf-8")
            return self._test(row, limit)
        finally:
            place.write_bytes(truth)

    def _test(self, row: Guarded, limit: float) -> Verdict:
        start = time.monotonic()
        with (self.folder / "output.txt").open("w+", encoding="utf-8") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *OPTIONS, *map(str, row.test_paths)],
                cwd=ROOT,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                while (code := process.poll()) is None and time.monotonic() < start + limit:
                    if self.stop.wait(0.1):
                        raise InputError("the run was stopped; the same command continues it")
            finally:
                _end(process)
            output.seek(0)
            said = output.read()[-2000:]
        if code not in (None, 0, 1, 2) and code >= 0:
            raise InputError(f"the tests of {row.module} did not run; pytest said: {said}")
        outcome = SURVIVED if code == 0 else CAUGHT
        return Verdict(outcome, time.monotonic() - start, "time is up" if code is None else said)

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(self.folder / "src"),
            # Compiled files are identified by size and second: a mutant would run as another one.
            "PYTHONDONTWRITEBYTECODE": "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(self.folder / "hypothesis"),
            "OMP_NUM_THREADS": "1",
        }


def _end(process: subprocess.Popen[bytes]) -> None:
    """Terminate what a test left behind: all of it is in the process's own session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
