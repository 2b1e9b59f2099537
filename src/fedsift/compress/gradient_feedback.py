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

from torch import Tensor

from fedsift.compress.error_feedback import ClientFeedback
from fedsift.compress.payload import Payload
from fedsift.compress.sketch_feedback import SketchFeedback
from fedsift.errors import InputError


@dataclass(frozen=True)
class ClientGradient(ClientFeedback):
    """Each client compresses H_m v - right, its share of grad q, and keeps the error."""

    form = "gradient"
    needs_right = True

    def server(
        self,
        payloads: Sequence[Payload],
        shares: Sequence[float],
        step: float,
        memory: Tensor | None,
        right: Tensor | None = None,
        total: float = 1.0,
    ) -> tuple[Tensor, None]:
        """Return Delta = sum w_m U(S_m) + alpha right."""
        delta, _ = super().server(payloads, shares, step, memory, right, total)
        return delta + step * given(right), None


@dataclass(frozen=True)
class SketchGradient(SketchFeedback):
    """The server subtracts S(right) from the sketches of the products."""

    form = "gradient"

    def server(
        self,
        payloads: Sequence[Payload],
        shares: Sequence[float],
        step: float,
        memory: Tensor | None,
        right: Tensor | None = None,
        total: float = 1.0,
    ) -> tuple[Tensor, Tensor]:
        """Return Delta = U(z) + alpha right for z = alpha (S_G - S(right)) + S_e."""
        S, check = self.compressor.compress(given(right)).table, self.compressor.check
        differences = [self.compressor.wrap(check(payload).table - S) for payload in payloads]
        delta, memory = super().server(differences, shares, step, memory, right, total)
        return delta + step * given(right), memory


def given(right: Tensor | None) -> Tensor:
    """Return the right-hand side, or refuse a step without one."""
    if right is None:
        raise InputError("the feedback 'gradient' needs the right-hand side; give `right`")
    return right
