"""What a theorem says beside what was measured, and whether the two agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import mean, stdev
from typing import Any, TypedDict

import torch


@dataclass(frozen=True)
class Check:
    """One claim.

    Attributes:
        claim: What is claimed, and where.
        theory: What it says, as a number or a bound.
        measured: What was seen.
        holds: Whether they agree; None where nothing is claimed, as outside an assumption.
    """

    claim: str
    theory: str
    measured: str
    holds: bool | None

    def to_json(self) -> dict[str, Any]:
        """Return it for a file."""
        return asdict(self)


class Spread(TypedDict):
    """A mean over draws and its standard deviation."""

    mean: float
    deviation: float


def spread(values: Sequence[float]) -> Spread:
    """Return mean and standard deviation; one value deviates by 0."""
    return {"mean": mean(values), "deviation": stdev(values) if len(values) > 1 else 0.0}


def slope(at: Sequence[float], values: Sequence[float]) -> float:
    """Return the power of ``at`` that fits best; nan where a value is not finite."""
    if not all(math.isfinite(value) and value > 0 for value in values):
        return math.nan
    logs = torch.tensor([list(at), list(values)], dtype=torch.float64).log()
    centred = logs - logs.mean(dim=1, keepdim=True)
    return float((centred[0] * centred[1]).sum() / centred[0].square().sum())


def slopes(at: Sequence[float], draws: Sequence[Sequence[float]]) -> Spread:
    """Return mean and deviation of the exponents, a draw each."""
    return spread([slope(at, drawn) for drawn in draws])
