"""Read a run folder.

| file | read as | when it is missing |
|---|---|---|
| `config.toml` | `Run.config` | the folder is not a run folder |
| `rounds.jsonl` | `Run.rounds`, a row per round | no rounds yet |
| `summary.json` | `Run.summary` | the run is unfinished |
| `clients/<id>/weights.parquet` | `Run.weights`, a row per sample | the method keeps no weights |

A crash can cut off the last line of `rounds.jsonl`; such a line is ignored.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fedsift.algorithms.registry import METHODS
from fedsift.errors import InputError
from fedsift.files import check_seal

MEASURES = (
    *("round", "train_loss", "validation_loss", "validation_accuracy", "test_accuracy"),
    "judged_accuracy",
    *("weights_f1", "weights_precision", "weights_recall", "weights_auc"),
    *("bytes_up", "bytes_down", "exchanges", "seconds"),
    *("residual", "v_norm", "solver_lr"),
)
SUMS = ("bytes_up", "bytes_down", "exchanges", "seconds")
WEIGHTS = ("client", "index", "label", "weight", "true_label")
FIXED_WEIGHTS = tuple(name for name, method in METHODS.items() if not method.learns_weights)


@dataclass(frozen=True, eq=False)
class Run:
    """The contents of a run folder; `summary` is None while the run is unfinished."""

    folder: Path
    config: Mapping[str, Any]
    rounds: pd.DataFrame
    summary: Mapping[str, Any] | None
    weights: pd.DataFrame

    @property
    def finished(self) -> bool:
        """Whether the run wrote its summary."""
        return self.summary is not None

    @property
    def method(self) -> str:
        """The method's name on the command line."""
        return self._named("method")

    @property
    def dataset(self) -> str:
        """The dataset's name."""
        return self._named("dataset")

    @property
    def seed(self) -> str:
        """The seed, as text."""
        return self._named("seed")

    @property
    def rounds_done(self) -> int:
        """How many rounds there are, so far."""
        done = self.number("rounds") if self.finished else None
        return len(self.rounds) if done is None else int(done)

    @property
    def learns_weights(self) -> bool:
        """Whether the weights are a result and not part of the method."""
        weights = self.weights["weight"]
        return self.method not in FIXED_WEIGHTS and bool(weights.min() < weights.max())

    @property
    def truth_known(self) -> bool:
        """Whether the true label of any sample is recorded."""
        return bool(self.weights["true_label"].notna().any())

    def number(self, key: str) -> float | None:
        """Return a number of the summary, or of the rounds so far when there is no summary."""
        if self.summary is not None:
            return _finite(self.summary.get(key))
        if key == "best_test_accuracy":
            return _finite(self.rounds["test_accuracy"].max())
        if key not in MEASURES or self.rounds.empty:
            return None
        column = self.rounds[key]
        if key in SUMS:  # a sum with a gap would be too low, and look right
            return None if column.isna().any() else _finite(column.sum())
        known = column.dropna()
        return _finite(known.iloc[-1]) if len(known) else None

    def _named(self, key: str) -> str:
        """Look in the summary, then in the tables of the configuration."""
        tables = [value for value in self.config.values() if isinstance(value, Mapping)]
        found = [place.get(key) for place in (self.summary or {}, self.config, *tables)]
        return next((str(value) for value in found if isinstance(value, str | int)), "unknown")


def load_run(folder: str | Path) -> Run:
    """Read a run folder, finished or not."""
    folder = Path(folder)
    if not (folder / "config.toml").is_file():
        raise InputError(
            f"{folder} is not a run folder: it has no config.toml; give the folder of a run"
        )
    check_seal(folder)
    return Run(
        folder=folder,
        config=_read_config(folder / "config.toml"),
        rounds=_read_rounds(folder / "rounds.jsonl"),
        summary=_read_summary(folder / "summary.json"),
        weights=_read_weights(folder / "clients"),
    )


def _read_config(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is not valid TOML ({error}); repair it") from error


def _read_summary(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    return _parse_object(path.read_bytes(), str(path))


def _read_rounds(path: Path) -> pd.DataFrame:
    lines = path.read_bytes().split(b"\n") if path.is_file() else []
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number},"
        try:
            row = _parse_object(line, where)
        except InputError:
            if number == len(lines):  # no newline after it: the writer was cut off
                break
            raise
        rows.append(_checked_round(row, where, position=len(rows) + 1))
    rounds = pd.DataFrame(rows, columns=[*MEASURES, "events"])
    rounds = rounds.astype(dict.fromkeys(MEASURES, "float64"))
    # A resumed run repeats the rounds after its checkpoint; the later line is the one that counts.
    return rounds.drop_duplicates("round", keep="last").sort_values("round", ignore_index=True)


def _checked_round(row: Mapping[str, Any], where: str, position: int) -> dict[str, Any]:
    checked: dict[str, Any] = {}
    for key in MEASURES:
        value = row.get(key)
        if value is not None and not _is_number(value):
            raise InputError(f"{where} has {key} = {value!r}; it must be a number or null")
        number = _finite(value)
        checked[key] = math.nan if number is None else number
    if math.isnan(checked["round"]):
        checked["round"] = float(position)
    events = row.get("events") or []
    checked["events"] = tuple(map(str, events if isinstance(events, list) else [events]))
    return checked


def _parse_object(text: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InputError(f"{where} is not valid JSON; repair or remove it") from error
    if not isinstance(value, dict):
        raise InputError(f"{where} is not a JSON object; repair or remove it")
    return value


def _read_weights(folder: Path) -> pd.DataFrame:
    frames = [_read_client(path) for path in sorted(folder.glob("*/weights.parquet"))]
    frames = [frame for frame in frames if len(frame)]
    weights = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    for column in WEIGHTS:
        if column not in weights:
            weights[column] = pd.Series(index=weights.index, dtype="float64")
    return weights[list(WEIGHTS)]


def _read_client(path: Path) -> pd.DataFrame:
    try:
        frame = pd.read_parquet(path)
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is not a valid Parquet file; repair or remove it") from error
    missing = [name for name in ("index", "label", "weight") if name not in frame]
    if missing:
        raise InputError(f"{path} has no column {missing[0]}; repair or remove it")
    if not pd.api.types.is_numeric_dtype(frame["weight"]):
        raise InputError(f"{path} has weights that are not numbers; repair or remove it")
    return frame.assign(client=path.parent.name)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _finite(value: Any) -> float | None:
    return float(value) if _is_number(value) and math.isfinite(value) else None
