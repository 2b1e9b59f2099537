"""A run that takes milliseconds, and what a run folder holds apart from the clock."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedsift.audit.record import ROWS
from fedsift.experiment.config import Config
from tiny import tiny_config

USUAL = {"rounds": 6, "checkpoint_every": 2}

MakeConfig = Callable[..., Config]


@pytest.fixture
def tiny() -> MakeConfig:
    """Return a function that makes a tiny configuration of a method; keywords are keys."""

    def make(method: str = "iter-sketch", **keys: Any) -> Config:
        return tiny_config(method, USUAL, **keys)

    return make


@pytest.fixture
def outcome() -> Callable[[Path], dict[str, Any]]:
    """Return a function that reads all of a finished run that must not depend on the clock."""

    def read(folder: Path) -> dict[str, Any]:
        lines = (folder / "rounds.jsonl").read_text().splitlines()
        records = [{**json.loads(line), "seconds": None} for line in lines]
        tables = sorted(folder.glob("clients/*/weights.parquet"))
        frames = {path.parent.name: pd.read_parquet(path) for path in tables}
        summary = json.loads((folder / "summary.json").read_text())
        return {
            "config": (folder / "config.toml").read_text(),
            "rounds": records,
            "summary": {**summary, "seconds": None},
            "model": (folder / "model.safetensors").read_bytes(),
            "weights": {
                site: frame.assign(**{n: frame[n].map(tuple) for n in ROWS if n in frame}).to_dict()
                for site, frame in frames.items()
            },
        }

    return read
