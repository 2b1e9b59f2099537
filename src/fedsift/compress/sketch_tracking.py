"""What EF21 is for a sketch: the server tracks Hv by sketches of what it lacks.

    z  = sum_m w_m S_i(H_m v) - S_i(G) = S_i(Hv - G)       S_i linear, drawn anew in iteration i
    G += n / (n + d) (1/r) S_i^T z,   Delta = alpha G       n = r c numbers sent

EF21 asks for a compressor that takes some part of *every* vector away. Reading heavy hitters out of
a sketch does not: of a dense vector the k largest estimates are collisions, ||U(S(p)) - p|| is
above ||p||, and G runs away, at any step. The mean (1/r) S^T S p does: it is p on average, with
variance at most d / n ||p||^2, so that n / (n + d) of it takes at least n / (n + d) of ||Hv - G||^2
away on average.
But only in the n directions of the hash, so the hash is drawn anew in every iteration: this is SEGA
(Hanzely, Mishchenko and Richtárik, NeurIPS 2018). It needs no heavy hitters, and alpha L <=
O(n / d).

The memory is the server's, so cohorts may change and clients stay without state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from torch import Tensor

from fedsift.compress.error_feedback import check_shares, same_shape, weighted_sum
from fedsift.compress.payload import Payload
from fedsift.compress.sketch_feedback import SketchFeedback
from fedsift.randomness import derive


@dataclass(frozen=True)
class SketchTracking(SketchFeedback):
    """The server keeps G and asks for sketches of the rest, by another hash each time."""

    form = "ef21"

    def turned(self, *turn: int) -> Self:
        """Return it with the hash of an iteration."""
        seed = derive(self.compressor.seed, "tracking", *turn)
        return replace(self, compressor=replace(self.compressor, seed=seed))

    def server(
        self,
        payloads: Sequence[Payload],
        shares: Sequence[float],
        step: float,
        memory: Tensor | None,
        right: Tensor | None = None,  # noqa: ARG002 - the caller adds it
        total: float = 1.0,  # noqa: ARG002
    ) -> tuple[Tensor, Tensor]:
        """Return Delta = alpha G, and G."""
        check_shares(payloads, shares)
        sketch = self.compressor
        z = weighted_sum((sketch.check(payload).table for payload in payloads), shares)
        if memory is not None:
            z = z - sketch.compress(same_shape(memory, z.new_empty(sketch.length))).table
        change = self.step_share * sketch.mean(sketch.wrap(z))
        G = change if memory is None else memory + change
        return step * G, G

    def error(self, memory: Tensor | None, at_clients: float) -> float:  # noqa: ARG002
        """Return 0: nothing is kept to be added later, so nothing can pile up."""
        return 0.0
