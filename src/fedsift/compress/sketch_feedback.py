"""Error feedback of the count sketch: Algorithm 2, lines 6-10.

    z     = alpha sum_m w_m S(H_m v) + S_e        w_m = N_m / sum N
    Delta = U(z)
    S_e'  = z - S(Delta)

S is linear, so the server keeps the error as the r x c table S_e and clients stay without state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from fedsift.compress.count_sketch import CountSketch
from fedsift.compress.error_feedback import Usual, check_shares, same_shape, weighted_sum
from fedsift.compress.payload import Payload


@dataclass(frozen=True)
class SketchFeedback(Usual):
    """The server keeps the error as a sketch (Algorithm 2, lines 6-10)."""

    compressor: CountSketch

    @property
    def poolable(self) -> bool:
        """Always: the sketch is linear, and its error is at the server."""
        return True

    @property
    def step_share(self) -> float:
        """Return n / (n + d): the part of any vector that n numbers can take away."""
        return self.compressor.numbers / (self.compressor.numbers + self.compressor.length)

    def client(
        self,
        product: Tensor,
        step: float,  # noqa: ARG002 - the server applies it
        memory: Tensor | None,  # noqa: ARG002 - the server has it
        *,
        fresh: bool = True,  # noqa: ARG002
    ) -> tuple[Payload, None]:
        """Send S(p)."""
        return self.compressor.compress(product), None

    def server(
        self,
        payloads: Sequence[Payload],
        shares: Sequence[float],
        step: float,
        memory: Tensor | None,
        right: Tensor | None = None,  # noqa: ARG002 - the caller adds it
        total: float = 1.0,  # noqa: ARG002
    ) -> tuple[Tensor, Tensor]:
        """Return Delta = U(z) for z = alpha S_G + S_e, and S_e' = z - S(Delta)."""
        check_shares(payloads, shares)
        S, U = self.compressor.compress, self.compressor.decompress
        S_G = weighted_sum((self.compressor.check(payload).table for payload in payloads), shares)
        z = step * S_G
        if memory is not None:
            z = z + same_shape(memory, z)
        delta = U(self.compressor.wrap(z))
        return delta, z - S(delta).table

    def error(self, memory: Tensor | None, at_clients: float) -> float:
        """Return the norm that the sketch S_e shows."""
        if memory is None:
            return at_clients
        return self.compressor.norm(self.compressor.wrap(memory))
