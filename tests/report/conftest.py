"""Small run folders, written with nothing but the standard library and pandas."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

CONFIG = """\
[run]
method = "{method}"
seed = {seed}

[data]
dataset = "{dataset}"
rho = {rho}

[solver]
rate = {rate}
note = "{note}"
"""
VERSIONS = {"fedsift": "0.1.0", "torch": "2.13.0"}

MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Return a function that writes a run folder; keywords beyond its own go to the summary."""

    def make(
        method: str,
        *accuracy: float | None,
        name: str | None = None,
        dataset: str = "digits",
        seed: int = 0,
        rho: float = 0.4,
        rate: int = 20,
        note: str = "",
        rounds: dict[str, list[Any]] | None = None,
        weights: list[dict[str, list[Any]]] = (),
        finished: bool = True,
        **summary: Any,
    ) -> Path:
        folder = tmp_path / (name or f"{dataset}-{method}-{seed}")
        folder.mkdir()
        keys = {"method": method, "dataset": dataset, "seed": seed}
        text = CONFIG.format(**keys, rho=rho, rate=rate, note=note)
        (folder / "config.toml").write_text(text)
        columns = {
            "round": range(1, len(accuracy) + 1),
            "test_accuracy": accuracy,
            **(rounds or {}),
        }
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        (folder / "rounds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        if finished:
            last = {"rounds": len(rows), "test_accuracy": accuracy[-1], "versions": VERSIONS}
            (folder / "summary.json").write_text(json.dumps(keys | last | summary))
        for client, table in enumerate(weights):
            (folder / "clients" / str(client)).mkdir(parents=True)
            path = folder / "clients" / str(client) / "weights.parquet"
            pd.DataFrame(table).to_parquet(path)
        return folder

    return make
