"""O(log d) numbers find the heavy hitters: what a count sketch needs, for d = 10² to 10⁵.

    g = 4 coordinates with g_i² = 0.1 ‖g‖² each at random places, normal numbers elsewhere
    found: all four are among the 8 largest estimates

A sketch has 20 columns, and rows until nothing is missed in 95 % of the draws; ``needed`` are rows
times columns then. Two hashes read the same vectors: ours by rotated blocks
(``compress/rotated_blocks.py``), and one that places each coordinate by itself. Row j of a hash
does not depend on how many rows there are, so that one table serves for every number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedsift.compress.hashing import HashFamily
from fedsift.compress.rotated_blocks import RotatedBlocks
from fedsift.experiment.theory.checks import Check
from fedsift.randomness import generator

COLUMNS, HEAVY, SHARE, READ = 20, 4, 0.1, 8
GOAL = 0.95
ROWS = (5, 9, 13, 17, 19, 21, 23, 25, 29, 33)
Cells = Callable[[int, int, int], Tensor]  # seed, rows, length -> bucket + columns * (sign < 0)


@dataclass(frozen=True)
class Size:
    """How much is measured: lengths d, each with its number of draws."""

    draws: dict[int, int]


SIZES = {
    "quick": Size({100: 20, 1000: 20}),
    "paper": Size({100: 60, 1000: 60, 10_000: 40, 100_000: 20}),
}


def rotated(seed: int, rows: int, length: int) -> Tensor:
    """Return where our hash puts every coordinate."""
    return RotatedBlocks(seed, rows, COLUMNS, length).cells()


def single(seed: int, rows: int, length: int) -> Tensor:
    """Return where a hash puts it that places each coordinate by itself."""
    blocks = HashFamily(seed, rows, COLUMNS).blocks(length, torch.device("cpu"))
    return torch.cat([cells for _, cells in blocks], 1)


HASHES: dict[str, Cells] = {"rotated blocks": rotated, "each coordinate by itself": single}


def measure(scale: str, hashes: dict[str, Cells] = HASHES) -> dict[str, Any]:
    """Measure all hashes; ``hashes`` are others in tests."""
    size, series, checks = SIZES[scale], [], []
    for name, cells in hashes.items():
        lengths = list(size.draws)
        found = [_shares(cells, length, draws) for length, draws in size.draws.items()]
        needed = [_needed(shares) for shares in found]
        series.append(
            {
                "hash": name,
                "length": lengths,
                "draws": list(size.draws.values()),
                "numbers": [rows * COLUMNS for rows in ROWS],
                "found": found,
                "needed": needed,
            }
        )
        checks.append(_check(series[-1]))
    if len(series) == 2:
        checks.append(_compared(*series))
    return {"series": series, "checks": [check.to_json() for check in checks]}


def vector(length: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return g and the places of its heavy hitters."""
    source = generator(seed, "heavy hitters")
    g = torch.randn(length, dtype=torch.float64, generator=source)
    places = torch.randperm(length, generator=source)[:HEAVY]
    signs = g[places].sign()
    g[places] = 0.0
    g *= math.sqrt(1 - HEAVY * SHARE) / g.norm()
    g[places] = signs * math.sqrt(SHARE)
    return g, places


def estimates(cells: Tensor, g: Tensor) -> Tensor:
    """Return every row's estimate of every coordinate."""
    bucket, sign = cells % COLUMNS, 1.0 - 2.0 * (cells // COLUMNS)
    table = torch.zeros(len(cells), COLUMNS, dtype=g.dtype).scatter_add_(1, bucket, sign * g)
    return sign * table.gather(1, bucket)


def _shares(cells: Cells, length: int, draws: int) -> list[float]:
    """Return the share of draws in which all are found, for each number of rows."""
    found = torch.zeros(len(ROWS))
    for seed in range(draws):
        g, places = vector(length, seed)
        rows = estimates(cells(seed, max(ROWS), length), g)
        for i, count in enumerate(ROWS):
            median = rows[:count].median(dim=0).values
            seen = median.abs().topk(READ).indices
            found[i] += bool(torch.isin(places, seen).all())
    return (found / draws).tolist()


def _needed(shares: list[float]) -> int | None:
    """Return the least numbers from which on the goal is met; None: not by any."""
    short = [i for i, share in enumerate(shares) if share < GOAL]
    first = short[-1] + 1 if short else 0
    return ROWS[first] * COLUMNS if first < len(ROWS) else None


def _check(found: dict[str, Any]) -> Check:
    lengths, needed = found["length"], found["needed"]
    seen = ", ".join(f"{n or 'more'} for {d:g}" for d, n in zip(lengths, needed, strict=True))
    growth = math.log(lengths[-1]) / math.log(lengths[0])
    holds = None not in needed and needed[-1] <= 1.25 * growth * needed[0]
    return Check(
        f"numbers that find the heavy hitters in {GOAL:.0%} of draws, {found['hash']}",
        f"O(log d): at most {growth:.1f} times as many at the end",
        seen,
        holds,
    )


def _compared(ours: dict[str, Any], other: dict[str, Any]) -> Check:
    """Say whether our hash finds as much as the other: the mean over sizes, and its error."""
    gaps = [
        a - b
        for x, y in zip(ours["found"], other["found"], strict=True)
        for a, b in zip(x, y, strict=True)
    ]
    least = min(ours["draws"])
    allowed = 3 * math.sqrt(2 * 0.25 / least / len(ours["length"]))
    gap = sum(gaps) / len(gaps)
    return Check(
        "rotated blocks find as much as a hash of each coordinate by itself",
        f"no less than by {allowed:.2f}, three deviations",
        f"{gap:+.3f} in the mean share of draws",
        gap >= -allowed,
    )
