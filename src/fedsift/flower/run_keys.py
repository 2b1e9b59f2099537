"""What travels with a submitted run: Flower's run config, listed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class RunKeys:
    """The keys of a run.

    | key | is |
    |---|---|
    | `config` | the run's configuration, as TOML |
    | `run` | its name: the folder at the server and at every site |
    | `resume` | continue from the last checkpoint |
    | `timeout`, `wait` | seconds to wait for a reply, and for the clients to connect |
    """

    config: str = ""
    run: str = ""
    resume: bool = False
    timeout: float = 600.0
    wait: float = 300.0

    def to_mapping(self) -> dict[str, Any]:
        """Return the keys for Flower: all are there, and floats are written as floats."""
        return {**asdict(self), "timeout": float(self.timeout), "wait": float(self.wait)}

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> RunKeys:
        """Read the keys from Flower's run config."""
        return cls(
            str(given["config"]),
            str(given["run"]),
            bool(given["resume"]),
            float(given["timeout"]),
            float(given["wait"]),
        )
