"""How many labels are wrong: the rates ρ_m of the clients, and the samples that are drawn.

``SPLITS`` is the paper's Section 5, where non-iid is about the noise and not about the classes:

    iid        ρ_m = 0.4 for all clients
    non-iid    ρ_m ~ U[0.2, 0.9]
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedsift.errors import DataError

Rate = float | Sequence[float]
"""One noise rate for all clients, or the bounds (low, high) of a uniform draw per client."""

SPLITS: dict[str, Rate] = {"iid": 0.4, "non-iid": (0.2, 0.9)}


def split_rate(split: str, rho: Rate | None) -> Rate:
    """Return the rate of a split, or a given one of the same kind (number or pair)."""
    usual = SPLITS[split]
    if rho is None:
        return usual
    one = isinstance(usual, int | float)
    if isinstance(rho, int | float) != one:
        wanted = "one number" if one else "a pair (low, high)"
        raise DataError(f"rho is {rho} but the split {split!r} needs {wanted}; change one of them")
    return rho


def rates(clients: int, rate: Rate, generator: torch.Generator) -> list[float]:
    """Return each client's noise rate: the same for all, or drawn from U[low, high]."""
    if isinstance(rate, int | float):
        _check_rate(rate)
        return [float(rate)] * clients
    if len(rate) != 2 or rate[0] > rate[1]:
        raise DataError(f"the noise rate is {rate}; give one number or a pair (low, high)")
    low, high = rate
    _check_rate(low)
    _check_rate(high)
    draws = torch.rand(clients, generator=generator, dtype=torch.float64)
    return [low + (high - low) * float(u) for u in draws]


def effective_rate(noisy: Tensor, true: Tensor) -> float:
    """Return the share of labels that differ from the true ones."""
    return float((noisy != true).double().mean())


def draw(labels: Tensor, rate: float, classes: int, generator: torch.Generator) -> Tensor:
    """Return the positions of round(rate * n) samples, drawn without replacement."""
    count = how_many(labels, rate, classes)
    return torch.randperm(len(labels), generator=generator)[:count]


def how_many(labels: Tensor, rate: float, classes: int) -> int:
    """Return round(rate * n), or refuse what cannot be made wrong."""
    _check_rate(rate)
    if classes < 2:
        raise DataError(f"there are {classes} classes; label noise needs at least 2")
    return round(rate * len(labels))


def _check_rate(rate: float) -> None:
    if not 0 <= rate <= 1:
        raise DataError(f"the noise rate is {rate}; it must be between 0 and 1")
