"""Aggregation that a few liars cannot steer: rules for the vectors that clients send.

    mean              Σ p_m u_m, each u_m clipped to ``clip`` times the median of ‖u_m‖: the default
    median            of every coordinate
    trimmed-mean      of every coordinate, without the b largest and the b smallest numbers
    geometric-median  argmin_z Σ p_m ‖z − u_m‖ by Weiszfeld's steps (Pillutla et al. 2022)
    krum              the u_m nearest to its n − b − 2 nearest others (Blanchard et al. 2017)

b is ``LIARS`` of the clients, rounded down. All rules work on clipped vectors. Products and
sketches are linear measurements, of which a median of means over 2b + 1 groups is taken; Top-k
keeps other places at every client, so that its products are clipped only. Nothing is clipped of
fewer than three clients, who have no majority, and no rule is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from fedsift.compress import Payload, Sketch, Sparse
from fedsift.keys import Keys, key

LIARS = 0.3
FEWEST = 3  # clients
STEPS, NEAR = 10, 1e-6  # of Weiszfeld: steps, and the least distance, as a share of the median one
WHOLE = 25.0  # a whole vector among differences may be this much longer (EF21's latecomers)

Rule = Callable[[Tensor, Tensor], Tensor]  # [n, d] and shares [n] -> [d]


def liars(n: int) -> int:
    """Return b: how many of n clients may lie."""
    return min(int(LIARS * n), (n - 1) // 2)


def _median(rows: Tensor, shares: Tensor) -> Tensor:  # noqa: ARG001
    low, high = rows.kthvalue((len(rows) + 1) // 2, dim=0), rows.kthvalue(len(rows) // 2 + 1, dim=0)
    return (low.values + high.values) / 2


def _trimmed(rows: Tensor, shares: Tensor) -> Tensor:  # noqa: ARG001
    b = liars(len(rows))
    return rows.sort(dim=0).values[b : len(rows) - b].mean(dim=0)


def _geometric(rows: Tensor, shares: Tensor) -> Tensor:
    z = _median(rows, shares)
    for _ in range(STEPS):
        distances = (rows - z).norm(dim=1)
        weights = shares / distances.clamp(min=NEAR * float(distances.median()) + 1e-30)
        z = (weights[:, None] * rows).sum(dim=0) / weights.sum()
    return z


def _krum(rows: Tensor, shares: Tensor) -> Tensor:  # noqa: ARG001
    n = len(rows)
    near = max(1, n - liars(n) - 2)
    distances = torch.cdist(rows, rows).square().sort(dim=1).values[:, 1 : near + 1].sum(dim=1)
    return rows[int(distances.argmin())]


RULES: dict[str, Rule | None] = {
    "mean": None,
    "median": _median,
    "trimmed-mean": _trimmed,
    "geometric-median": _geometric,
    "krum": _krum,
}


def median_of_means(rows: Tensor, shares: Tensor) -> Tensor:
    """Return the median, by coordinate, of the means over 2b + 1 groups."""
    groups = 2 * liars(len(rows)) + 1
    parts = [
        (shares[g::groups, None] * rows[g::groups]).sum(dim=0) / shares[g::groups].sum()
        for g in range(groups)
    ]
    return _median(torch.stack(parts), shares)


@dataclass(frozen=True)
class RobustKeys(Keys):
    """How replies are aggregated, and how much one site may weigh."""

    table: ClassVar[str] = "robustness"
    aggregation: str = key(
        "mean", "how the sites' vectors are aggregated", choices=lambda: tuple(RULES)
    )
    clip: float = key(
        3.0, "longest vector of a site, in medians over the sites of the round; 0: any", low=0
    )
    max_share: float = key(
        0.0,
        "largest share of one site in a mean; 0: one that claims 20 times the median number of "
        "samples weighs as the median",
        low=0,
        high=1,
    )


def clipped(payload: Payload, factor: float) -> Payload:
    """Return a vector times a factor, in the form that it has."""
    if isinstance(payload, Sparse):
        return replace(payload, values=payload.values * factor, bits=0)
    if isinstance(payload, Sketch):
        return replace(payload, table=payload.table * factor)
    return payload * factor


def numbers_of(payload: Payload) -> Tensor:
    """Return the numbers that a payload consists of."""
    if isinstance(payload, Sparse):
        return payload.values
    return payload.table if isinstance(payload, Sketch) else payload


def aggregated(payloads: Sequence[Payload], shares: Sequence[float], rule: Rule) -> Payload | None:
    """Return what a rule makes of alike vectors; None where they are not alike."""
    first = payloads[0]
    if all(isinstance(p, Sparse) for p in payloads):
        dense = [p.dense() for p in payloads if isinstance(p, Sparse)]
    else:
        dense = [numbers_of(p) for p in payloads if type(p) is type(first)]
    if len(dense) < len(payloads) or any(d.shape != dense[0].shape for d in dense):
        return None
    rows = torch.stack([d.flatten() for d in dense])
    weights = torch.tensor(list(shares), dtype=rows.dtype, device=rows.device)
    found = rule(rows, weights).reshape(dense[0].shape)
    return replace(first, table=found) if isinstance(first, Sketch) else found
