"""What a site lets a server ask: ``policy.toml``, with a strict default.

A policy is a group of keys, like a configuration; ``guard.py`` holds requests against it. What a
key protects from is in docs/guide/privacy.md.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from fedsift.algorithms.registry import METHODS
from fedsift.errors import ConfigError, InputError
from fedsift.keys import Keys, hint, key, keys_of

FILE = "policy.toml"


@dataclass(frozen=True)
class Policy(Keys):
    """The keys of ``policy.toml``."""

    table: ClassVar[str] = "policy"
    methods: tuple[str, ...] = key((), "methods that a run may use; empty: all")
    refused_actions: tuple[str, ...] = key((), "actions that are refused, whatever the method")
    models: tuple[str, ...] = key(
        (), "models that the server may name; empty: any of fedsift's own, never module:function"
    )
    approve: bool = key(False, "a run starts only after the owner has seen it and said yes")
    private_batches: bool = key(
        True, "batches are drawn with a secret of the site: the server does not know who is in one"
    )
    private_noise: bool = key(
        True, "noise for differential privacy is drawn with a fresh secret: nobody can take it out"
    )
    most_epsilon: float = key(
        0.0,
        "epsilon, at delta 1e-5, that a run may cost the site; no noise is refused; 0: any",
        low=0,
    )
    least_batch: int = key(
        8, "fewest samples behind a step or a product, counted by their weights", low=1
    )
    least_kept: int = key(8, "fewest samples that a request may leave to train on", low=1)
    least_counted: int = key(
        5, "fewest samples behind a number of a histogram or of a class", low=1
    )
    most_steps: int = key(1000, "local steps of a request", low=1)
    most_lr: float = key(10.0, "inner step size", low=0, open_low=True)
    most_bins: int = key(128, "bins of a histogram", low=1)
    most_products: int = key(100, "products with the Hessian in a round", low=0)
    most_rounds: int = key(2000, "rounds of a run, those done again included", low=1)
    most_runs: int = key(20, "runs that begin within 24 hours", low=1)
    most_numbers: int = key(
        2**26, "numbers of an array that comes with a request or is built for it", low=1
    )
    most_classes: int = key(10_000, "classes of a run", low=1)
    most_parameters: int = key(2**29, "parameters of a run's model", low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.methods:
            if name not in METHODS:
                raise ConfigError(f"methods has {name!r}, which is none{hint(name, METHODS)}")

    def to_toml(self) -> str:
        """Return the file that says this, every key with its meaning."""
        lines = []
        for name, declared in keys_of(type(self)).items():
            lines += [f"# {declared.text}", f"{name} = {_shown(getattr(self, name))}", ""]
        return "\n".join(lines)


OPEN = Policy(
    private_batches=False,
    private_noise=False,
    least_batch=1,
    least_kept=1,
    least_counted=1,
    most_bins=2**26,
)  # what a site of one's own may allow: replies are those of one process, bit for bit


def read_policy(path: Path | None) -> Policy:
    """Read a policy; the strict default where there is no file."""
    if path is None or not path.exists():
        return Policy()
    try:
        given: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not a policy ({error}); mend it or remove it") from None
    known = keys_of(Policy)
    for name in given:
        if name not in known:
            raise ConfigError(f"{path} has an unknown key '{name}'{hint(name, known)}")
    listed: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in given.items()}
    try:
        return Policy(**listed)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(f'"{part}"' for part in value) + "]"
    return str(value)
