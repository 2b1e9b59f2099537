"""The command line without a process of its own, in an empty folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedsift.cli.main import main

TINY = """\
[run]
rounds = 3

[data]
clients = 2
samples_per_client = 20
validation_size = 30
test_size = 40

[model]
model = "linear"
"""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Ended]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDSIFT_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture
def fedsift(capsys) -> Command:
    """Return a function that runs a command as the console script does."""

    def call(*arguments: str | Path) -> Ended:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # argparse: help and faults in the arguments
            code = int(stop.code or 0)
        return Ended(code, *capsys.readouterr())

    return call


@pytest.fixture
def tiny(empty_folder) -> str:
    """Write the configuration of a run that takes milliseconds; return its name."""
    (empty_folder / "tiny.toml").write_text(TINY)
    return "tiny.toml"
