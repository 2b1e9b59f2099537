"""A run submitted: ``flwr run`` starts it, and its log carries progress and the run folder.

The log is the one thing that Flower passes from a server app to who submitted it. Where it breaks
off while the server is being started again, it is read anew from its start.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from fedsift.errors import InputError, RunError
from fedsift.files import write_atomically
from fedsift.flower import programs
from fedsift.flower.bundle import write_bundle
from fedsift.flower.programs import Address
from fedsift.flower.supervise import say

AGAIN = (2, 5, 10, 20, 30, 60)  # seconds between looks at a log that broke off
Observe = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Submission:
    """A run to start: its configuration as TOML, its name, how long to wait for whom."""

    address: Address
    config: str
    run: str
    out: Path
    resume: bool = False
    timeout: float = 600.0
    wait: float = 300.0
    verbose: bool = False

    def follow(self, observe: Observe) -> None:
        """Start the run, pass on its progress, write its folder; raise if it failed."""
        with tempfile.TemporaryDirectory(prefix="fedsift-") as name:
            scratch = Path(name)
            programs.write_connection(scratch / "flwr", self.address)
            told = {
                "config": self.config,
                "run": self.run,
                "resume": self.resume,
                "timeout": float(self.timeout),
                "wait": float(self.wait),
            }
            (scratch / "run.toml").write_text(tomli_w.dumps(told), encoding="utf-8")
            command = programs.run(write_bundle(scratch / "fedsift"), scratch / "run.toml")
            env = programs.environment(scratch / "flwr")
            log, tries = Log(observe, verbose=self.verbose), 0
            while (code := self._watch(command, env, log)) or not log.complete:
                if log.number is None or code == 0 or tries == len(AGAIN):
                    raise RunError(f"the run did not finish: {' '.join(log.other)[-500:]}")
                say(f"the server's log broke off; trying again in {AGAIN[tries]} s")
                time.sleep(AGAIN[tries])
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
                log.take(line)
        return 0 if log.complete else process.returncode


class Log:
    """A run's log, taken apart: rounds to who observes, files, and what is Flower's own."""

    def __init__(self, observe: Observe, *, verbose: bool = False) -> None:
        self.files: dict[str, bytes] = {}
        self.other: list[str] = []
        self.number: str | None = None
        self._observe, self._verbose, self._rounds = observe, verbose, 0

    @property
    def complete(self) -> bool:
        """True if the last of the files has come."""
        return "summary.json" in self.files

    def take(self, line: str) -> None:
        """Take a line; raise if it says that the run has failed."""
        kind, _, text = line.strip().partition(" ")
        if kind == "@round":
            record = json.loads(text)
            if record["round"] > self._rounds:  # a log that is read again starts at its start
                self._rounds = record["round"]
                self._observe(record)
        elif kind == "@file":
            name, _, data = text.partition(" ")
            self.files[name] = self.files.get(name, b"") + base64.b64decode(data)
        elif kind == "@failed":
            bad_input, _, sentence = text.partition(" ")
            raise InputError(sentence) if bad_input == "1" else RunError(sentence)
        elif line.strip():
            say(line.rstrip(), show=self._verbose)
            self.other = [*self.other[-9:], line.strip()]
            if started := re.search(r"started run (\d+)", line):
                self.number = started[1]


def write_folder(out: Path, files: dict[str, bytes]) -> None:
    """Write a run folder, the summary last."""
    for name in sorted(files, key=lambda n: n == "summary.json"):
        if not re.fullmatch(r"[a-z]+\.[a-z]+", name):
            raise RunError(f"the server sent a file {name!r}, which a run folder does not have")
        data = files[name]
        write_atomically(out / name, lambda path, data=data: path.write_bytes(data))  # type: ignore[misc]
