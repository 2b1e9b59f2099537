"""How good v is, by a sketch that does not steer it.

    P = Σ_m (N_m / Σ N) S'(∇²_yy g_m v + δ v),    B = S'(∇_y F)        S' linear, its own seed
    a = ⟨P, B⟩ / ⟨B, B⟩,    c = ‖P − a B‖ / ‖∇_y F‖
    ‖(H + δ) v − ∇_y F‖ / ‖∇_y F‖ ≈ √((1 − a)² + c²)

| symbol | here       | meaning                                                                    |
|--------|------------|----------------------------------------------------------------------------|
| S'     | `Witness`  | 10 × 32 counters of each client's uncompressed product, new each round     |
| a      | `along`    | how much of ∇_y F the product has                                          |
| c      | `across`   | how large the rest of the product is                                       |

A residual that is read from the compressed numbers themselves reads low: the hash that steers v
does not see what it has left out. ‖∇_y F‖ is the server's own and exact, so that only the part
across ∇_y F, and a's error c / √320, are estimated: with 320 numbers within 4 % (one standard
deviation; 6 % if all blocks of 32 numbers were parallel), and much nearer where v is small. Ten
short rows rather than 5 × 64: two coordinates that hold most of a vector then collide in one row of
ten, not of five.

v = 0 has a residual of 1. An estimate is used as it is where it is surely better, by four standard
deviations. Where it is not, but its product surely points along ∇_y F, it is used at the length
that is best for it, s = a / (a² + c²) for the least a that is likely: its residual is then below 1,
c / √(a² + c²) at best. Where not even that is sure, v = 0 is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from fedsift.compress import CountSketch, Payload
from fedsift.messages import Answers, scalar

ROWS, COLUMNS = 10, 32
SURE = 4.0  # standard deviations


@dataclass(frozen=True)
class Witness:
    """The hash of one measurement, and δ.

    A client adds δ v: the v that it was sent may be compressed, and the server's is another one.
    """

    seed: int = scalar("residual_seed")
    damping: float = scalar("residual_damping", default=0.0)

    def sketch(self, length: int) -> CountSketch:
        """Return S' for d = ``length``."""
        return _sketch(length, self.seed)

    def seen(self, product: Tensor, v: Tensor) -> Payload:
        """Return S'(p + δ v) of a product p with v, for a reply."""
        damped = product + self.damping * v if self.damping else product
        return self.sketch(len(product)).compress(damped)


@lru_cache(maxsize=1)
def _sketch(length: int, seed: int) -> CountSketch:
    """Return the hash of a measurement, which clients and server in one process have in common."""
    return CountSketch(length, ROWS, COLUMNS, seed)


@dataclass(frozen=True)
class Measured:
    """What the witness shows of a v."""

    along: float = 0.0
    across: float = 0.0

    @property
    def residual(self) -> float:
        """That of v as it is."""
        return self.of(1.0)

    def of(self, scale: float) -> float:
        """Return the residual of ``scale`` times v."""
        return math.hypot(1.0 - scale * self.along, scale * self.across)

    @property
    def least(self) -> float:
        """That of v at the length at which it may be used."""
        return self.of(self.scale) if self.scale else 1.0

    @property
    def scale(self) -> float:
        """By how much v must be multiplied to be no worse than v = 0; 0 where nothing helps."""
        n, gap, c = ROWS * COLUMNS, 1.0 - self.along, self.across
        if not (math.isfinite(gap) and math.isfinite(c)):
            return 0.0
        deviation = math.sqrt((4 * (gap * c) ** 2 + 2 * c**4) / n)
        if gap**2 + c**2 + SURE * deviation < 1.0:
            return 1.0
        least = self.along - SURE * c / math.sqrt(n)
        return least / (least**2 + c**2) if least > 0.0 else 0.0


@dataclass(frozen=True, eq=False)
class Judge:
    """The server's side of a witness: B, ‖∇_y F‖, and what they say of a P."""

    sketch: CountSketch
    B: Tensor
    size: float

    @classmethod
    def of(cls, witness: Witness, outer_gradient: Tensor) -> Judge:
        """Sketch ∇_y F."""
        sketch = witness.sketch(len(outer_gradient))
        return cls(sketch, sketch.compress(outer_gradient).table, float(outer_gradient.norm()))

    def product(self, answers: Answers) -> Tensor:
        """Return P, from the clients' sketches, for the v that they had."""
        P = torch.zeros_like(self.B)
        for share, payload in zip(answers.shares, answers.payloads("residual"), strict=True):
            P = P + share * self.sketch.check(payload).table
        return P

    def measured(self, product: Tensor) -> Measured:
        """Return a and c of a P."""
        if self.size == 0.0:  # v = 0 is the solution, and any other is infinitely far from it
            return Measured(1.0, math.inf if bool(product.any()) else 0.0)
        P, B = product.double(), self.B.double()
        along = float((P * B).sum() / (B * B).sum())
        return Measured(along, float((P - along * B).norm()) / math.sqrt(ROWS) / self.size)
