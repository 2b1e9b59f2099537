"""Count sketch: r x c counters from which the large coordinates of a vector can be read back.

    compress    S[j, b_j(i)] += s_j(i) g_i              for every row j and coordinate i
    estimate    g_i ~ median_j  s_j(i) S[j, b_j(i)]
    decompress  the estimates at the k coordinates where they are largest, zero elsewhere

| symbol | here | meaning |
|---|---|---|
| r, c | `rows`, `columns` | r c = O(log(d / delta) / tau) finds all tau-heavy coordinates |
| b_j, s_j | `HashFamily` | bucket and sign of a coordinate in row j |
| k | `k` | coordinates that `decompress` keeps |

S is linear, so sketches of several clients can be averaged. One row's estimate has mean g_i and
variance at most ||g||^2 / c; the median over rows makes large errors rare.

Working memory is O(d) and a block of constant size, never r * d: cells are hashed block by block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import torch
from torch import Tensor

from fedsift.compress.hashing import HashFamily, check_length
from fedsift.compress.payload import Payload, Sketch, check_at_least, check_vector
from fedsift.compress.settings import RateKeys
from fedsift.compress.topk import largest
from fedsift.errors import InputError
from fedsift.keys import BuildContext, Keys, Settings, key


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
        _ = self._hashes  # checks rows, columns and seed
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
        g = check_vector(g, self.length)
        counters = g.new_zeros(self.rows, 2 * self.columns)
        for block, cells in self._hashes.blocks(self.length, g.device):
            _add_at(counters, cells, g[block])
        positive, negative = counters.chunk(2, dim=1)
        return self.wrap(positive - negative)

    def estimate(self, sketch: Sketch) -> Tensor:
        """Return the estimate of every coordinate: the median over rows.

        With an even number of rows it is the mean of the two middle values.
        """
        table = self.check(sketch).table
        counters = torch.cat((table, -table), dim=1)
        g = table.new_empty(self.length)
        for block, cells in self._hashes.blocks(self.length, table.device):
            g[block] = _median(counters.gather(1, cells))
        return g

    def mean(self, sketch: Sketch) -> Tensor:
        """Return (1/r) S^T S g: g on average over seeds, with variance (d - 1) / rc ||g||^2."""
        table = self.check(sketch).table
        counters = torch.cat((table, -table), dim=1)
        g = table.new_empty(self.length)
        for block, cells in self._hashes.blocks(self.length, table.device):
            g[block] = counters.gather(1, cells).mean(dim=0)
        return g

    def decompress(self, payload: Payload) -> Tensor:
        """Return the k estimates of largest magnitude, zero elsewhere."""
        estimate = self.estimate(self.check(payload))
        kept = largest(estimate, self.k)
        return torch.zeros_like(estimate).index_put_((kept,), estimate[kept])

    def norm(self, sketch: Sketch) -> float:
        """Estimate ||g|| as the root of the median over rows of the squared row norm."""
        squares = self.check(sketch).table.square().sum(dim=1, keepdim=True)
        return math.sqrt(_median(squares).item())

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
    def _hashes(self) -> HashFamily:
        return HashFamily(self.seed, self.rows, self.columns)


def _add_at(counters: Tensor, cells: Tensor, g: Tensor) -> None:
    """Add g to the given cells of every row, always in the same order."""
    if counters.is_cuda:  # scatter_add_ there adds in any order; this one sorts first
        rows = torch.arange(len(counters), device=counters.device).unsqueeze(1)
        counters.index_put_((rows, cells), g.expand_as(cells), accumulate=True)
    else:  # half the time of index_add_ and of bincount, and it keeps the dtype
        counters.scatter_add_(1, cells, g.expand_as(cells))


def _median(values: Tensor) -> Tensor:
    """Return the median over dim 0.

    Bubble sort, stopped at the middle: with a few long rows its vectorised min and max are some
    ten times faster than torch.sort or torch.median across rows.
    """
    rows: list[Tensor] = list(values)
    lower, upper = (len(rows) - 1) // 2, len(rows) // 2
    for top in range(len(rows) - 1, lower - 1, -1):
        for j in range(top):
            low, high = rows[j], rows[j + 1]
            rows[j], rows[j + 1] = torch.minimum(low, high), torch.maximum(low, high)
    return rows[lower] if lower == upper else (rows[lower] + rows[upper]) / 2


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
