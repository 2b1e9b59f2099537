"""Eq. 12 of the paper: compress the gradient of q, not the product alone.

    v' = v - C(alpha grad q(v) + e),   e' = alpha grad q(v) + e - C(alpha grad q(v) + e)
    grad q(v) = sum_m w_m (H_m v - right),   right = grad F, less the damping's part

It is the form that Theorem 1 is proved for. At the solution grad q is zero, where Hv is not: what
is left out falls with the error, so that a constant step stalls lower than the listing's. Both
need alpha L <= O(k / d).

Top-k is applied by the clients, so each must have `right`: d more numbers down per iteration. A
sketch is linear, so the server subtracts S(right) itself, and nothing more travels. Delta is
C(...) + alpha right, so that the step v' = v - (Delta - alpha right) is the same for all forms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from torch import Tensor

from fedsift.compress.count_sketch import CountSketch
from fedsift.compress.error_feedback import ClientFeedback
from fedsift.compress.payload import Compressor, Payload
from fedsift.compress.sketch_feedback import SketchFeedback
from fedsift.errors import InputError


@dataclass(frozen=True)
class ClientGradient:
    """Each client compresses its share of grad q and keeps the error, as Top-k needs."""

    compressor: Compressor

    form = "gradient"
    poolable = False
    needs_right = True
    step_share = 1.0  # the k largest hold most of the products of trained models

    def turned(self, *turn: int) -> Self:  # noqa: ARG002 - the same compressor every time
        """Return itself."""
        return self

    def client(
        self, product: Tensor, step: float, memory: Tensor | None, *, fresh: bool = True
    ) -> tuple[Payload, Tensor]:
        """Send S(q) for q = alpha p + e_m; p is H_m v - right here."""
        return self._listing.client(product, step, memory, fresh=fresh)

    def left(self, product: Tensor, step: float, memory: Tensor | None) -> float:
        """Return the norm of the memory."""
        return self._listing.left(product, step, memory)

    def server(
        self,
        payloads: Sequence[Payload],
        shares: Sequence[float],
        step: float,
        memory: Tensor | None,
        right: Tensor | None = None,
        total: float = 1.0,  # noqa: ARG002
    ) -> tuple[Tensor, None]:
        """Return Delta = sum w_m U(S_m) + alpha right."""
        delta, _ = self._listing.server(payloads, shares, step, memory)
        return delta + step * given(right), None

    def error(self, memory: Tensor | None, at_clients: float) -> float:
        """Return what the clients report."""
        return self._listing.error(memory, at_clients)

    @property
    def _listing(self) -> ClientFeedback:
        return ClientFeedback(self.compressor)


@dataclass(frozen=True)
class SketchGradient:
    """The server subtracts S(right) from the sketches of the products."""

    compressor: CountSketch

    form = "gradient"
    poolable = True
    needs_right = False

    @property
    def step_share(self) -> float:
        """Return n / (n + d)."""
        return self._listing.step_share

    def turned(self, *turn: int) -> Self:  # noqa: ARG002 - the memory is a sketch of this hash
        """Return itself."""
        return self

    def client(
        self, product: Tensor, step: float, memory: Tensor | None, *, fresh: bool = True
    ) -> tuple[Payload, None]:
        """Send S(p)."""
        return self._listing.client(product, step, memory, fresh=fresh)

    def left(self, product: Tensor, step: float, memory: Tensor | None) -> float:
        """Return 0: the client leaves nothing out."""
        return self._listing.left(product, step, memory)

    def server(
        self,
        payloads: Sequence[Payload],
        shares: Sequence[float],
        step: float,
        memory: Tensor | None,
        right: Tensor | None = None,
        total: float = 1.0,  # noqa: ARG002
    ) -> tuple[Tensor, Tensor]:
        """Return Delta = U(z) + alpha right for z = alpha (S_G - S(right)) + S_e."""
        S, check = self.compressor.compress(given(right)).table, self.compressor.check
        differences = [self.compressor.wrap(check(payload).table - S) for payload in payloads]
        delta, memory = self._listing.server(differences, shares, step, memory)
        return delta + step * given(right), memory

    def error(self, memory: Tensor | None, at_clients: float) -> float:
        """Return the norm that the sketch S_e shows."""
        return self._listing.error(memory, at_clients)

    @property
    def _listing(self) -> SketchFeedback:
        return SketchFeedback(self.compressor)


def given(right: Tensor | None) -> Tensor:
    """Return the right-hand side, or refuse a step without one."""
    if right is None:
        raise InputError("the feedback 'gradient' needs the right-hand side; give `right`")
    return right
