"""Sets of keys with a name: ``--preset`` of ``fedsift run`` and ``fedsift reproduce``.

| preset          | is                                                                          |
|-----------------|-----------------------------------------------------------------------------|
| `paper-steps`   | the inner step and batch of the paper's Section 5                           |
| `paper-literal` | the paper as it is written: besides, the plain outer step along ∇h, the     |
|                 | exact Hessian without damping, v from 0 in every round, nothing of ours     |

The paper gives η = 0.1 and γ = 0.01, but neither α nor I. α is taken as γ, and I as 5: from v_0 = 0
a single iteration is v = α ∇F, without any product.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedsift.algorithms.registry import METHODS
from fedsift.errors import ConfigError
from fedsift.experiment.config import read_by
from fedsift.keys import hint

# No weight of ours, no mean over rounds, the listing's error feedback.
PAPER_PLAIN: Mapping[str, Any] = {
    "outer_decay": 0,
    "self_paced": 0.0,
    "head_start": 0,
    "bootstrap": 0.0,
    "weight_mean": 0.0,
    "feedback": "listing",
}
PAPER_STEPS: Mapping[str, Any] = {"inner_lr": 0.01, "batch_size": 256}
PAPER_LITERAL: Mapping[str, Any] = {
    **PAPER_PLAIN,
    **PAPER_STEPS,
    "outer_lr": 0.1,
    "outer_rule": "gradient",
    "curvature": "hessian",
    "damping": 0.0,
    "curvature_batch": 256,
    "warm_start": False,
    "fresh_cohort": True,
    "iterations": 5,
    "solver_lr": 0.01,
}
SMALL_BATCH = {"cifar10": 32}  # Section 5 has 32 samples instead of 256 there

PRESETS: dict[str, Mapping[str, Any]] = {
    "paper-steps": PAPER_STEPS,
    "paper-literal": PAPER_LITERAL,
}


def preset_keys(preset: str, method: str, dataset: str) -> dict[str, Any]:
    """Return those keys of a preset that a method reads; of no preset none."""
    if not preset:
        return {}
    if preset not in PRESETS:
        known = f"choose from {', '.join(PRESETS)}{hint(preset, PRESETS)}"
        raise ConfigError(f"there is no preset '{preset}'; {known}")
    if METHODS[method].choose is not None:
        raise ConfigError(f"--preset {preset} needs a method by its name; give --method")
    keys, batch = dict(PRESETS[preset]), SMALL_BATCH.get(dataset)
    if batch is not None:
        keys |= {name: batch for name in ("batch_size", "curvature_batch") if name in keys}
    return read_by(method, keys)
