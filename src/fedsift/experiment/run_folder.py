"""The run folder: the files of a run.

    config.toml                     every key, defaults written out
    rounds.jsonl                    a line per round
    summary.json                    the last round, the totals, the versions
    model.safetensors               the model, by parameter name
    schema.json                     how one's own samples become its inputs
    chosen.json                     which method was chosen and why, where the user named none
    clients/<site>/weights.parquet  the site's samples after training (``audit.record``)
    clients/<site>/audit.json       a summary of the site's labels
    clients/<site>/samples.parquet  what a person sees of samples that were given in memory
    left_out.json                   clients whose replies were bad, and why; edit it to readmit one
    releases.json                   how often each client was asked for a reply with noise
    checkpoint/                     to resume from
    files.sha256                    the hashes of all the others (`sha256sum -c files.sha256`)

``rounds.jsonl`` only grows; a line that a crash cut off is dropped on resume. All other files are
written whole. While a process writes to the folder it holds ``run.lock``.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from fedsift import sealed
from fedsift.algorithms.method import Choice
from fedsift.audit import SiteAudit
from fedsift.data.schema import Schema
from fedsift.errors import InputError
from fedsift.experiment.config import Config
from fedsift.files import SEAL, cannot_write, hold, seal, sweep, write_text

LOCK = "run.lock"
SITE_FILES = ("weights.parquet", "audit.json", "samples.parquet")


class Written(Protocol):
    """A configuration, as far as a folder cares."""

    def to_toml(self) -> str:
        """Return it as TOML."""
        ...


class RunFolder:
    """Paths and writers of one run folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.toml"
        self.rounds = path / "rounds.jsonl"
        self.summary = path / "summary.json"
        self.model = path / "model.safetensors"
        self.chosen = path / "chosen.json"
        self.checkpoints = path / "checkpoint"
        self.left_out = path / "left_out.json"
        self.releases = path / "releases.json"

    def check_free(self) -> None:
        """Refuse a folder that holds a run."""
        if self.config.exists() or self.rounds.exists():
            raise InputError(
                f"{self.path} already holds a run; add --resume to continue it or choose another "
                "folder with --out"
            )

    def check_run(self) -> None:
        """Refuse a folder that holds no run to resume."""
        if not self.config.exists():
            raise InputError(f"{self.path} holds no run to resume; start one without --resume")

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder, so that no other process writes to it."""
        made = [path for path in (self.path, *self.path.parents) if not path.exists()]
        try:
            with hold(self.path / LOCK, "choose another folder with --out"):
                sweep(self.path)
                yield
        finally:
            for path in made:  # bad input leaves nothing behind
                if path.is_dir() and not any(path.iterdir()):
                    path.rmdir()

    def open(self, config: Written, choice: Choice | None = None) -> None:
        """Write the configuration; until the summary is written the run is unfinished."""
        try:
            self.chosen.unlink(missing_ok=True)
            if choice is not None:
                write_text(self.chosen, json.dumps(asdict(choice)) + "\n")
            write_text(self.config, config.to_toml())
            self.summary.unlink(missing_ok=True)
            (self.path / SEAL).unlink(missing_ok=True)
        except OSError as error:
            raise InputError(
                f"cannot write to {self.path} ({error.strerror}); choose another folder with --out"
            ) from None

    def read_choice(self, config: Config) -> Choice | None:
        """Return how the run's method was chosen; None where it was given."""
        try:
            choice = Choice(**json.loads(self.chosen.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (TypeError, ValueError):
            raise InputError(f"{self.chosen} cannot be read; remove it to resume") from None
        return choice if choice.method == config.method else None

    def write_schema(self, schema: Schema) -> None:
        """Write how samples become the model's inputs."""
        write_text(self.path / "schema.json", schema.to_json() + "\n")

    def append(self, record: dict[str, Any]) -> None:
        """Add a line to ``rounds.jsonl`` and flush it to disk."""
        try:
            with self.rounds.open("a", encoding="utf-8") as file:
                file.write(json.dumps(_jsonable(record), allow_nan=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise cannot_write(self.rounds, error) from None

    def write_rounds(self, records: Sequence[dict[str, Any]]) -> None:
        """Write ``rounds.jsonl`` at once."""
        lines = (json.dumps(_jsonable(record), allow_nan=False) for record in records)
        write_text(self.rounds, "".join(f"{line}\n" for line in lines))

    def keep_rounds(self, count: int) -> list[dict[str, Any]]:
        """Drop all lines after the first ``count`` rounds; return what is left."""
        lines = self._lines() if self.rounds.exists() else []
        if len(lines) < count:
            raise InputError(
                f"{self.rounds} has {len(lines)} rounds but the checkpoint has {count}; the run "
                "cannot be resumed; start a new one with another --out"
            )
        kept = lines[:count]
        records = [_record(line, self.rounds) for line in kept]
        write_text(self.rounds, "".join(line + "\n" for line in kept))
        return records

    def _lines(self) -> list[str]:
        try:
            return self.rounds.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        except OSError as error:
            raise InputError(f"{self.rounds} cannot be read ({error.strerror})") from None

    def read_rounds(self) -> list[dict[str, Any]]:
        """Return the records of all rounds."""
        return [_record(line, self.rounds) for line in self._lines()]

    def write_results(
        self, model: Mapping[str, Tensor], audits: Sequence[SiteAudit], summary: dict[str, Any]
    ) -> None:
        """Write the model, every site's files, then the summary: the mark of a finished run."""
        sealed.save(self.model, model)
        for audit in audits:
            audit.record.write(self.path)
            audit.write(self.path)
        self.write_summary(summary)

    def read_left_out(self) -> dict[int, list[str]]:
        """Return the clients whose replies were bad, and what was wrong with them."""
        if not self.left_out.exists():
            return {}
        try:
            found = json.loads(self.left_out.read_text(encoding="utf-8"))
            return {int(client): list(map(str, why)) for client, why in found.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            raise InputError(
                f"{self.left_out} is not a list of clients; mend it, or remove it to readmit all"
            ) from None

    def write_left_out(self, strikes: Mapping[int, Sequence[str]]) -> None:
        """Write them; a person who removes one readmits it when the run is resumed."""
        kept = {str(client): list(why) for client, why in sorted(strikes.items())}
        write_text(self.left_out, json.dumps(kept, indent=2) + "\n")

    def read_releases(self, *, resumed: bool) -> dict[int, int]:
        """Return how often each client was asked; those asked after the checkpoint count too."""
        if not self.releases.exists() and not resumed:
            return {}
        try:
            found = json.loads(self.releases.read_text(encoding="utf-8"))
            return {int(client): int(count) for client, count in found.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            raise InputError(
                f"{self.releases} does not say how often clients were asked, so what the run has "
                "cost is not known; start a new run in another folder"
            ) from None

    def write_releases(self, releases: Mapping[int, int]) -> None:
        """Write them, before a request goes out."""
        kept = {str(client): count for client, count in sorted(releases.items())}
        write_text(self.releases, json.dumps(kept) + "\n")

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write ``summary.json``, then the hashes of all files of the run."""
        write_text(self.summary, json.dumps(_jsonable(summary), indent=2, allow_nan=False) + "\n")
        seal(self.path, [name for name in self._files() if (self.path / name).is_file()])

    def _files(self) -> list[str]:
        """Return the names of the files that a finished run may have."""
        own = [self.config, self.rounds, self.summary, self.model, self.chosen]
        sites = [p for name in SITE_FILES for p in (self.path / "clients").glob(f"*/{name}")]
        return [str(p.relative_to(self.path)) for p in (*own, self.path / "schema.json", *sites)]


def _record(line: str, path: Path) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise InputError(f"{path} has a line that is no record of a round; make the run again")
    return record


def _jsonable(value: Any) -> Any:
    """Replace numbers that JSON does not know by null."""
    if isinstance(value, dict):
        return {k: _jsonable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
