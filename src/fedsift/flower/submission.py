"""A run submitted: ``flwr run`` starts it, and its log carries progress and the run folder.

The log is Flower's only channel from a server app to the command that submitted it. If it breaks
off because the server is being restarted, it is read again from its start. A run to resume that has
not ended is followed instead: only its ``submit`` had ended.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from fedsift.errors import InputError, RunError
from fedsift.files import seal, write_atomically
from fedsift.flower import programs
from fedsift.flower.bundle import write_bundle
from fedsift.flower.programs import Address
from fedsift.flower.run_keys import RunKeys

RETRY = (2, 5, 10, 20, 30, 60)  # seconds before a log that broke off is read again
Observe = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Submission:
    """A run to start: at which server, with which keys, into which folder."""

    address: Address
    keys: RunKeys
    out: Path
    verbose: bool = False

    def follow(self, observe: Observe) -> None:
        """Start the run, pass on its progress, write its folder; raise if it failed."""
        with tempfile.TemporaryDirectory(prefix="fedsift-") as name:
            scratch = Path(name)
            programs.write_connection(scratch / "flwr", self.address)
            text = tomli_w.dumps(self.keys.to_mapping())
            (scratch / "run.toml").write_text(text, encoding="utf-8")
            command = programs.run(write_bundle(scratch / "app"), scratch / "run.toml")
            env = programs.environment(scratch / "flwr")
            log, tries = Log(observe, verbose=self.verbose), 0
            while (code := self._watch(command, env, log)) or not log.complete:
                if log.goes_on:
                    say("the run has not ended; following it")
                    log.number, log.goes_on = log.goes_on, None
                    command = programs.log(str(log.number))
                    continue
                if log.number is None or code == 0 or tries == len(RETRY):
                    last = " ".join(log.other)[-500:]
                    raise RunError(f"the run did not finish ({last}); --resume continues it")
                say(f"the server's log broke off; reading it again in {RETRY[tries]} s")
                time.sleep(RETRY[tries])
                command, tries = programs.log(log.number), tries + 1
        write_folder(self.out, log.files)

    def _watch(self, command: list[str], env: dict[str, str], log: Log) -> int:
        """Read a run's log from its start to where it ends or breaks off."""
        say(f"+ {shlex.join(command)}", show=self.verbose)
        log.files.clear()
        with subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                log.read(line)
        return 0 if log.complete else process.returncode


class Log:
    """A run's log, parsed: rounds for the observer, files, and Flower's own lines."""

    def __init__(self, observe: Observe, *, verbose: bool = False) -> None:
        self.files: dict[str, bytes] = {}
        self.other: list[str] = []
        self.number: str | None = None
        self.goes_on: str | None = None
        self._observe, self._verbose, self._rounds = observe, verbose, 0
        self._notes: set[str] = set()

    @property
    def complete(self) -> bool:
        """True if the last of the files has arrived."""
        return "summary.json" in self.files

    def read(self, line: str) -> None:
        """Read a line; raise if it says that the run has failed."""
        kind, _, text = line.strip().partition(" ")
        if kind == "@round":
            record = json.loads(text)
            if record["round"] > self._rounds:  # a log that is read again repeats rounds
                self._rounds = record["round"]
                self._observe(record)
        elif kind == "@note":
            say(f"note: {text}", show=text not in self._notes)
            self._notes.add(text)
        elif kind == "@file":
            name, _, data = text.partition(" ")
            self.files[name] = self.files.get(name, b"") + base64.b64decode(data)
        elif kind == "@goes-on":
            self.goes_on = text
        elif kind == "@failed":
            bad_input, _, sentence = text.partition(" ")
            raise InputError(sentence) if bad_input == "1" else RunError(sentence)
        elif line.strip():
            say(line.rstrip(), show=self._verbose)
            self.other = [*self.other[-9:], line.strip()]
            if started := re.search(r"started run (\d+)", line):
                self.number = started[1]


def say(text: str, *, show: bool = True) -> None:
    """Print a line for the person at the terminal."""
    if show:
        print(text, file=sys.stderr, flush=True)


def write_folder(out: Path, files: dict[str, bytes]) -> None:
    """Write a run folder, the summary last."""
    for name in sorted(files, key=lambda n: n == "summary.json"):
        if not re.fullmatch(r"[a-z]+\.[a-z]+", name):
            raise RunError(f"the server sent a file {name!r}, which is not part of a run folder")
        data = files[name]
        write_atomically(out / name, lambda path, data=data: path.write_bytes(data))  # type: ignore[misc]
    seal(out, files)
