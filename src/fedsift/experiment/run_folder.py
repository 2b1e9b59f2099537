"""The run folder: the files of a run.

    config.toml                  every key, defaults written out
    rounds.jsonl                 a line per round
    summary.json                 the last round, the totals, the versions
    model.safetensors            the model, by parameter name
    clients/<id>/weights.parquet index, label, weight, agreement; true_label in simulation
    checkpoint/                  to resume from

``rounds.jsonl`` only grows; a line that a crash cut off is dropped on resume. All other files are
written whole.
"""

from __future__ import annotations

import json
import math
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.torch import save_file

from fedsift.algorithms import ServerState
from fedsift.errors import InputError
from fedsift.experiment.config import Config
from fedsift.experiment.setup import Setup
from fedsift.files import write_atomically, write_text


class RunFolder:
    """Paths and writers of one run folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.toml"
        self.rounds = path / "rounds.jsonl"
        self.summary = path / "summary.json"
        self.model = path / "model.safetensors"
        self.checkpoints = path / "checkpoint"

    def check_free(self) -> None:
        """Refuse a folder that holds a run."""
        if self.config.exists() or self.rounds.exists():
            raise InputError(
                f"{self.path} already holds a run; add --resume to continue it or choose another "
                "folder with --out"
            )

    def open(self, config: Config) -> None:
        """Write the configuration; until the summary is written the run is unfinished."""
        try:
            write_text(self.config, config.to_toml())
            self.summary.unlink(missing_ok=True)
        except OSError as error:
            raise InputError(
                f"cannot write to {self.path} ({error.strerror}); choose another folder with --out"
            ) from None

    def append(self, record: dict[str, Any]) -> None:
        """Add a line to ``rounds.jsonl`` and flush it to disk."""
        with self.rounds.open("a", encoding="utf-8") as file:
            file.write(json.dumps(_jsonable(record), allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def keep_rounds(self, count: int) -> list[dict[str, Any]]:
        """Drop all lines after the first ``count`` rounds; return what is left."""
        lines = self.rounds.read_text(encoding="utf-8").splitlines() if self.rounds.exists() else []
        if len(lines) < count:
            raise InputError(
                f"{self.rounds} has {len(lines)} rounds but the checkpoint has {count}; the run "
                "cannot be resumed; start a new one with another --out"
            )
        kept = lines[:count]
        write_text(self.rounds, "".join(line + "\n" for line in kept))
        return [json.loads(line) for line in kept]

    def write_results(self, setup: Setup, state: ServerState, summary: dict[str, Any]) -> None:
        """Write the model, every client's weights, then the summary: the mark of a finished run."""
        tensors = {
            name: value.detach().cpu().contiguous().clone()
            for name, value in setup.model.unflatten(state.y).items()
        }
        write_atomically(self.model, lambda path: save_file(tensors, path))
        for m in setup.federation.sizes if setup.sees_weights else ():
            target = self.path / "clients" / str(m) / "weights.parquet"
            write_atomically(target, partial(weights_table(setup, m).to_parquet, index=False))
        self.write_summary(summary)

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write ``summary.json``."""
        write_text(self.summary, json.dumps(_jsonable(summary), indent=2, allow_nan=False) + "\n")


def weights_table(setup: Setup, client: int) -> pd.DataFrame:
    """Return one client's samples with their weights."""
    data = setup.data.clients[client]
    columns = {
        "index": np.arange(len(data)),
        "label": data.labels.numpy(),
        "weight": setup.weights(client).numpy(),
        "agreement": setup.agreement(client).numpy(),
    }
    if data.true_labels is not None:
        columns["true_label"] = data.true_labels.numpy()
    return pd.DataFrame(columns)


def _jsonable(value: Any) -> Any:
    """Replace numbers that JSON does not know by null."""
    if isinstance(value, dict):
        return {k: _jsonable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
