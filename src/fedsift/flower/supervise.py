"""Keep programs running: restart each with back-off when it ends, and stop all together."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from fedsift.logs import PlainLog, say
from fedsift.site.lifetime import end_with_parent

BACK_OFF = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)  # seconds
STEADY = 30.0  # seconds after which a program counts as running
POLL = 0.2
STAMP = "2026-01-31 00:00:00Z"  # before every line of a log


class Program:
    """One program, its log, and when to start it next."""

    def __init__(
        self, command: Sequence[str], env: dict[str, str], log: Path, *, verbose: bool = False
    ) -> None:
        self.command, self.env, self.log, self.verbose = list(command), env, log, verbose
        self._plain = PlainLog(log)
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
        self.process = subprocess.Popen(
            self.command,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=end_with_parent,  # noqa: PLW1509 - this process has one thread
        )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self._since = time.monotonic()

    def keep_log(self) -> None:
        """Write to the log what the program has printed."""
        if self.process is None or self.process.stdout is None:
            return
        while data := self.process.stdout.read(2**16):
            self._plain.write(data)

    def _close_log(self) -> None:
        self.keep_log()
        self._plain.close()
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()

    def restart_if_ended(self) -> None:
        """Start it again if it has ended, after a longer wait each time."""
        self.keep_log()
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
        self._close_log()
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        lines = [line[len(STAMP) + 1 :].strip() for line in text.splitlines()[-8:]]
        last = [line for line in lines if line and not line.startswith("INFO")]
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
        self._close_log()


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
