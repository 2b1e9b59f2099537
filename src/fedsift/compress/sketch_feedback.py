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
from fedsift.compress.error_feedback import check_shares, same_shape, weighted_sum
from fedsift.compress.payload import Payload


@dataclass(frozen=True)
class SketchFeedback:
    """The server keeps the error as a sketch (Algorithm 2, lines 6-10)."""

    compressor: CountSketch

    @property
    def poolable(self) -> bool:
        """Always: the sketch is linear, and its error is at the server."""
        return True

    def client(
        self,
        product: Tensor,
        step: float,  # noqa: ARG002 - the server applies it
        memory: Tensor | None,  # noqa: ARG002 - the server has it
    ) -> tuple[Payload, None]:
        """Send S(p)."""
        return self.compressor.compress(product), None

    def server(
        self,
        payloads: Sequence[Payload],
        shares: Sequence[float],
        step: float,
        memory: Tensor | None,
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

    def residual(
        self,
        payloads: Sequence[Payload],
        shares: Sequence[float],
        delta: Tensor,  # noqa: ARG002 - U would miss the most of Hv
        step: float,  # noqa: ARG002 - the sketches are of H_m v itself
        right: Tensor,
    ) -> float:
        """Return the norm that the sketch S_G - S(right) shows; S is linear."""
        difference = -self.compressor.compress(right).table
        for share, payload in zip(shares, payloads, strict=True):
            difference += share * self.compressor.check(payload).table
        return self.compressor.norm(self.compressor.wrap(difference))

    def error(self, memory: Tensor | None, at_clients: float) -> float:
        """Return the norm that the sketch S_e shows."""
        if memory is None:
            return at_clients
        return self.compressor.norm(self.compressor.wrap(memory))
