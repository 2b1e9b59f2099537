"""A run that takes milliseconds, as keys; those that a method does not read are left out."""

from __future__ import annotations

from typing import Any

from fedsift.experiment.config import Config, read_by

TINY = {
    "clients": 2,
    "samples_per_client": 20,
    "validation_size": 30,
    "test_size": 40,
    "model": "linear",
    "local_steps": 2,
    "batch_size": 8,
    "inner_lr": 0.1,
    "rate": 5.0,
    "glc_rounds": 2,
    "elc_rounds": 2,
    "corr_rounds": 2,
    "corr_finetune": 1,
}


def tiny_config(method: str, usual: dict[str, Any], **keys: Any) -> Config:
    """Return a tiny configuration; ``usual`` are further defaults, ``keys`` must be read."""
    return Config.of(method=method, **{**read_by(method, TINY | usual), **keys})
