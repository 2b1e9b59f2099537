"""Count sketch: r x c counters from which the large coordinates of a vector can be read back.

    compress    S[j, b_j(i)] += s_j(i) g_i              for every row j and coordinate i
    estimate    g_i ~ median_j  s_j(i) S[j, b_j(i)]
    decompress  the estimates at the k coordinates where they are largest, zero elsewhere

| symbol | here | meaning |
|---|---|---|
| r, c | `rows`, `columns` | r c = O(log(d / delta) / tau) finds all tau-heavy coordinates |
| b_j, s_j | `RotatedBlocks` | bucket and sign of a coordinate in row j |
| k | `k` | coordinates that `decompress` keeps |

S is linear, so sketches of several clients can be averaged. One row's estimate has mean g_i and
variance at most ||g||^2 / c; the median over rows makes large errors rare. A row's squared norm has
mean ||g||^2 and variance at most 4 ||g||^4 / c. ``rotated_blocks.py`` has the hash and the proofs.

Working memory is O(d + r c), never r * d.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self, TypeAlias

import torch
from torch import Tensor

from fedsift.compress.hashing import check_length
from fedsift.compress.payload import Payload, Sketch, check_at_least, check_vector
from fedsift.compress.rotated_blocks import RotatedBlocks
from fedsift.compress.settings import RateKeys
from fedsift.compress.topk import largest
from fedsift.errors import InputError
from fedsift.keys import BuildContext, Keys, Settings, key

Pick: TypeAlias = Callable[[Tensor, Tensor], Tensor]  # of two numbers, at every place


@dataclass(frozen=True)
class CountSketch:
    """A count sketch with heavy-hitter decoding.

    `decompress` keeps k = `heavy` coordinates, by default k = max(1, columns // 16). Under error
    feedback a *given* error is worked off with 5 rows and k of 0.05 to 0.1 of the columns, while it
    grows with k from 0.3 of the columns on, or with 3 rows or fewer: most of those estimates are
    collisions, and what is wrongly subtracted from the memory comes back larger.

    In Algorithm 2 no k is stable by itself, because each step adds an error of its own: the step
    must be alpha L <= O(k / d), L being the largest curvature. A dense product with alpha L = 1
    diverges, even at rate 1; with heavy hitters, as Theorem 1 assumes, larger steps do. Where there
    are none, read the sketch by `mean` (``sketch_tracking.py``).

    Attributes:
        length: d.
        rows: How many counters see every coordinate.
        columns: Counters per row.
        seed: Of the hashes.
        heavy: k; 0: by the columns.
    """

    length: int
    rows: int
    columns: int
    seed: int
    heavy: int | None = None

    def __post_init__(self) -> None:
        check_length(self.length)
        _ = self._matrix  # checks rows, columns and seed
        if self.heavy is not None:
            check_at_least(1, heavy=self.heavy)
            if self.heavy > self.length:
                raise InputError(f"heavy is {self.heavy}; give at most the length {self.length}")

    @classmethod
    def at_rate(cls, length: int, rate: float, rows: int = 5, seed: int = 0) -> Self:
        """Return the sketch with columns = max(1, floor(d / (rate * rows)))."""
        check_at_least(1, rate=rate, rows=rows)
        return cls(length, rows, max(1, math.floor(length / (rate * rows))), seed)

    @property
    def numbers(self) -> int:
        """The r c counters."""
        return self.rows * self.columns

    @property
    def linear(self) -> bool:
        """Counters add up."""
        return True

    @property
    def k(self) -> int:
        """How many coordinates `decompress` keeps."""
        return self.heavy or min(self.length, max(1, self.columns // 16))

    def compress(self, g: Tensor) -> Sketch:
        """Return the sketch of g, in g's dtype and on its device; the same bits every time."""
        return self.wrap(self._matrix.apply(check_vector(g, self.length)))

    def estimate(self, sketch: Sketch) -> Tensor:
        """Return the estimate of every coordinate: the median over rows.

        With an even number of rows it is the mean of the two middle values.
        """
        table = self.check(sketch).table
        g = table.new_empty(self.length)
        for places, rows in self._matrix.rows_of(table):
            g[places] = _median(rows)
        return g

    def mean(self, sketch: Sketch) -> Tensor:
        """Return (1/r) S^T S g: g on average over seeds, with variance at most d / rc ||g||^2."""
        table = self.check(sketch).table
        g = table.new_empty(self.length)
        for places, rows in self._matrix.rows_of(table):
            g[places] = sum(rows[1:], rows[0]) / self.rows
        return g

    def decompress(self, payload: Payload) -> Tensor:
        """Return the k estimates of largest magnitude, zero elsewhere."""
        estimate = self.estimate(self.check(payload))
        kept = largest(estimate, self.k)
        values = estimate[kept]
        return estimate.zero_().index_put_((kept,), values)

    def norm(self, sketch: Sketch) -> float:
        """Estimate ||g|| as the root of the median over rows of the squared row norm."""
        squares = self.check(sketch).table.square().sum(dim=1)
        return math.sqrt(_median(list(squares)).item())

    def spec(self) -> dict[str, int | str]:
        """Return the name and the sizes, with the k in use."""
        sizes = {"length": self.length, "rows": self.rows, "columns": self.columns}
        return {"name": "count-sketch", **sizes, "seed": self.seed, "heavy": self.k}

    def wrap(self, table: Tensor) -> Sketch:
        """Return a table of this compressor's shape as a sketch."""
        return Sketch(table, self.length, self.seed)

    def check(self, payload: Payload) -> Sketch:
        """Return the payload, or refuse one that another compressor has made."""
        if not isinstance(payload, Sketch):
            raise InputError(
                f"count sketch was given a {type(payload).__name__}; send what `compress` returns"
            )
        got = (*payload.table.shape, payload.length, payload.seed)
        want = (self.rows, self.columns, self.length, self.seed)
        if got != want:
            raise InputError(
                f"a sketch has (rows, columns, length, seed) {got} where {want} is expected;"
                " use the same compressor on both sides"
            )
        check_vector(payload.table.flatten(), self.numbers)
        return payload

    @cached_property
    def _matrix(self) -> RotatedBlocks:
        return RotatedBlocks(self.seed, self.rows, self.columns, self.length)


def _median(rows: list[Tensor]) -> Tensor:
    """Return the median over rows.

    Of just so many rows that their least and greatest cannot be in the middle, these two are
    dropped and the next row is taken in: the fewest vectorised min and max for a few long rows.
    """
    window, waiting = rows[: len(rows) // 2 + 2], rows[len(rows) // 2 + 2 :]
    while len(window) > 2:
        window = _inner(window)
        window += [waiting.pop()] if waiting else []
    return window[0] if len(window) == 1 else (window[0] + window[1]) / 2


def _inner(rows: list[Tensor]) -> list[Tensor]:
    """Return all but the least and the greatest, at every place."""
    low, high = torch.minimum, torch.maximum
    pairs = list(zip(rows[::2], rows[1::2], strict=False))
    over = rows[2 * len(pairs) :]
    lows = _without([low(*pair) for pair in pairs] + over, low, high)
    over = [lows.pop()] if over else []
    return lows + _without([high(*pair) for pair in pairs] + over, high, low)


def _without(rows: list[Tensor], extreme: Pick, other: Pick) -> list[Tensor]:
    """Return all but one extreme; the last of them has been compared with it at last."""
    carried, kept = rows[0], []
    for row in rows[1:-1]:
        kept.append(other(carried, row))
        carried = extreme(carried, row)
    return [*kept, other(carried, rows[-1])] if len(rows) > 1 else []


@dataclass(frozen=True)
class SketchKeys(Keys):
    """The shape of the count sketch."""

    table: ClassVar[str] = "solver"
    sketch_rows: int = key(5, "rows of the count-sketch", low=1, high=99)
    heavy: int = key(
        0, "how many of the largest entries a count-sketch recovers; 0: its columns // 16", low=0
    )


def build(settings: Settings, context: BuildContext) -> CountSketch:
    """Build it from its keys, with the seed of the run."""
    own = settings[SketchKeys]
    rate = settings[RateKeys].rate
    sketch = CountSketch.at_rate(context.length, rate, own.sketch_rows, context.seed)
    return replace(sketch, heavy=own.heavy or None)
