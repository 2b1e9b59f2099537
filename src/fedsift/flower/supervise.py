"""Keep programs running: restart each with back-off when it ends, and stop all together."""

from __future__ import annotations

import ctypes
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

BACK_OFF = (
    1.0,
    2.0,
    4.0,
    8.0,
    15.0,
)  # seconds; a server holds a lost SuperNode's session for a minute
STEADY = 30.0  # seconds after which a program counts as running
POLL = 0.2


class Program:
    """One program, its log, and when to start it next."""

    def __init__(
        self, command: Sequence[str], env: dict[str, str], log: Path, *, verbose: bool = False
    ) -> None:
        self.command, self.env, self.log, self.verbose = list(command), env, log, verbose
        self.process: subprocess.Popen[bytes] | None = None
        self.ends = 0
        self._due, self._since, self._failing = 0.0, 0.0, time.monotonic()

    @property
    def name(self) -> str:
        """The program's own name."""
        return Path(self.command[0]).name

    def start(self) -> None:
        """Start it."""
        say(f"+ {shlex.join(self.command)}", show=self.verbose)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - this process has one thread
            )
        self._since = time.monotonic()

    def restart_if_ended(self) -> None:
        """Start it again if it has ended, after a longer wait each time."""
        now = time.monotonic()
        if self.process is None:
            if now >= self._due:
                self.start()
        elif (code := self.process.poll()) is not None:
            if now - self._since > STEADY:
                self.ends, self._failing = 0, now
            self.ends += 1
            wait = BACK_OFF[min(self.ends, len(BACK_OFF)) - 1]
            say(f"{self.name} ended ({self.reason(code)}); starting it again in {wait:g} s")
            self.process, self._due = None, now + wait

    def failing(self) -> float:
        """Return for how many seconds it has not run steadily; 0 if it runs."""
        now = time.monotonic()
        runs = self.process is not None and (not self.ends or now - self._since > STEADY)
        return 0.0 if runs else now - self._failing

    def reason(self, code: int) -> str:
        """Return the exit code and the last lines of the log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:]
        last = [line.strip() for line in lines if line.strip() and not line.startswith("INFO")]
        return f"code {code}: {' '.join(last)[-300:]}" if last else f"code {code}"

    def stop(self) -> None:
        """Terminate it; kill it if it has not ended after a while."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(timeout=8)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def keep_running(
    programs: Sequence[Program], *, give_up: Callable[[], str | None] = lambda: None
) -> str | None:
    """Run programs until a signal comes, or until ``give_up`` returns a reason to stop."""
    stopped: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        stopped.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        while not stopped:
            for program in programs:
                program.restart_if_ended()
            if (reason := give_up()) is not None:
                return reason
            time.sleep(POLL)
    finally:
        for program in reversed(programs):
            program.stop()
    return None


def say(text: str, *, show: bool = True) -> None:
    """Print a line for the person at the terminal."""
    if show:
        print(text, file=sys.stderr, flush=True)


def end_with_parent() -> None:
    """Have the kernel terminate this process when its parent has ended (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
