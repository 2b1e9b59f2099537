"""Label noise of a known rate ρ, so that the effective rate is mean(noisy ≠ true) = round(ρn) / n.

symmetric   a drawn sample gets any other class, all alike
pair_flip   a drawn sample of class c gets class c + 1 (mod classes)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fedsift.errors import DataError

Rate = float | Sequence[float]
"""One noise rate for all clients, or the bounds (low, high) of a uniform draw per client."""


def symmetric(labels: Tensor, rate: float, classes: int, generator: torch.Generator) -> Tensor:
    """Give exactly round(rate * n) samples a uniformly random other class."""
    chosen = _draw(labels, rate, classes, generator)
    shift = torch.randint(1, classes, (len(chosen),), generator=generator)
    return _move(labels, chosen, shift, classes)


def pair_flip(labels: Tensor, rate: float, classes: int, generator: torch.Generator) -> Tensor:
    """Give exactly round(rate * n) samples the next class."""
    chosen = _draw(labels, rate, classes, generator)
    return _move(labels, chosen, torch.ones_like(chosen), classes)


def none(labels: Tensor, rate: float, classes: int, generator: torch.Generator) -> Tensor:  # noqa: ARG001
    """Keep every label."""
    return labels.clone()


NOISES: dict[str, Callable[[Tensor, float, int, torch.Generator], Tensor]] = {
    "symmetric": symmetric,
    "pair": pair_flip,
    "none": none,
}


def rates(clients: int, rate: Rate, generator: torch.Generator) -> list[float]:
    """Return each client's noise rate: the same for all, or drawn from U[low, high]."""
    if isinstance(rate, int | float):
        _check_rate(rate)
        return [float(rate)] * clients
    if len(rate) != 2 or rate[0] > rate[1]:
        raise DataError(f"The noise rate is {rate}; give one number or a pair (low, high).")
    low, high = rate
    _check_rate(low)
    _check_rate(high)
    draws = torch.rand(clients, generator=generator, dtype=torch.float64)
    return [low + (high - low) * float(u) for u in draws]


def effective_rate(noisy: Tensor, true: Tensor) -> float:
    """Return the share of labels that differ from the true ones."""
    return float((noisy != true).double().mean())


def _draw(labels: Tensor, rate: float, classes: int, generator: torch.Generator) -> Tensor:
    _check_rate(rate)
    if classes < 2:
        raise DataError(f"There are {classes} classes; label noise needs at least 2.")
    count = round(rate * len(labels))
    return torch.randperm(len(labels), generator=generator)[:count]


def _move(labels: Tensor, chosen: Tensor, shift: Tensor, classes: int) -> Tensor:
    noisy = labels.clone()
    noisy[chosen] = (labels[chosen] + shift) % classes
    return noisy


def _check_rate(rate: float) -> None:
    if not 0 <= rate <= 1:
        raise DataError(f"The noise rate is {rate}; it must lie between 0 and 1.")
