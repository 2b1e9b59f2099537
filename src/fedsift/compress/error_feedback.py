"""Error feedback: what compression left out is kept and added back at the next iteration.

Algorithm 2 needs a step Delta ~ alpha * sum_m w_m H_m v from the clients' products H_m v, with
w_m = N_m / sum N. Who remembers the error depends on the compressor:

| | client sends | client memory | Delta | server memory |
|---|---|---|---|---|
| `NoFeedback` | S(p) | - | alpha sum w_m U(S_m) | - |
| `ClientFeedback` | S(q), q = alpha p + e_m | q - U(S(q)) | sum w_m U(S_m) | - |
| `SketchFeedback` | S(p) | - | U(z), z = alpha sum w_m S_m + S_e | z - S(Delta) |

`SketchFeedback` is lines 6-10 of Algorithm 2: S is linear, so the server keeps the error as the
r x c table S_e and clients stay without state. A memory of None is a memory of zeros.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from fedsift.compress.count_sketch import CountSketch
from fedsift.compress.payload import Compressor, Payload
from fedsift.errors import InputError


class Feedback(Protocol):
    """The two halves of one compressed step; both return (value, new memory)."""

    @property
    def compressor(self) -> Compressor:
        """The S and U in use."""
        ...

    def client(
        self, product: Tensor, step: float, memory: Tensor | None
    ) -> tuple[Payload, Tensor | None]:
        """Return what the client sends for its product H_m v."""
        ...

    def server(
        self,
        payloads: Sequence[Payload],
        shares: Sequence[float],
        step: float,
        memory: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Return Delta from what the clients sent; `shares` are N_m / sum N."""
        ...


@dataclass(frozen=True)
class NoFeedback:
    """Forget the error; exact when the compressor is."""

    compressor: Compressor

    def client(
        self,
        product: Tensor,
        step: float,  # noqa: ARG002 - the server applies it
        memory: Tensor | None,  # noqa: ARG002 - there is none
    ) -> tuple[Payload, None]:
        """Send S(p)."""
        return self.compressor.compress(product), None

    def server(
        self,
        payloads: Sequence[Payload],
        shares: Sequence[float],
        step: float,
        memory: Tensor | None,  # noqa: ARG002 - there is none
    ) -> tuple[Tensor, None]:
        """Return Delta = alpha sum w_m U(S_m)."""
        _check_shares(payloads, shares)
        return step * _sum(map(self.compressor.decompress, payloads), shares), None


@dataclass(frozen=True)
class ClientFeedback:
    """Each client keeps the error of its own compression, as Top-k needs."""

    compressor: Compressor

    def client(self, product: Tensor, step: float, memory: Tensor | None) -> tuple[Payload, Tensor]:
        """Send S(q) for q = alpha p + e_m and keep q - U(S(q))."""
        wanted = step * product
        if memory is not None:
            wanted = wanted + _like(memory, wanted)
        payload = self.compressor.compress(wanted)
        return payload, wanted.detach() - self.compressor.decompress(payload)

    def server(
        self,
        payloads: Sequence[Payload],
        shares: Sequence[float],
        step: float,  # noqa: ARG002 - the clients have applied it
        memory: Tensor | None,  # noqa: ARG002 - the clients have it
    ) -> tuple[Tensor, None]:
        """Return Delta = sum w_m U(S_m)."""
        _check_shares(payloads, shares)
        return _sum(map(self.compressor.decompress, payloads), shares), None


@dataclass(frozen=True)
class SketchFeedback:
    """The server keeps the error as a sketch (Algorithm 2, lines 6-10)."""

    compressor: CountSketch

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
        _check_shares(payloads, shares)
        S, U = self.compressor.compress, self.compressor.decompress
        S_G = _sum((self.compressor.check(payload).table for payload in payloads), shares)
        z = step * S_G
        if memory is not None:
            z = z + _like(memory, z)
        delta = U(self.compressor.wrap(z))
        return delta, z - S(delta).table


def _sum(terms: Iterable[Tensor], shares: Sequence[float]) -> Tensor:
    weighted = (share * term for term, share in zip(terms, shares, strict=True))
    total = next(weighted)
    for term in weighted:
        total = total.add_(term)
    return total


def _like(memory: Tensor, other: Tensor) -> Tensor:
    if memory.shape != other.shape:
        raise InputError(
            f"the error memory has shape {tuple(memory.shape)} where {tuple(other.shape)} is"
            " expected, start from None when the compressor changes"
        )
    return memory


def _check_shares(payloads: Sequence[Payload], shares: Sequence[float]) -> None:
    if not payloads or len(payloads) != len(shares):
        raise InputError(
            f"{len(payloads)} payloads came with {len(shares)} shares, give one share per payload"
        )
    if not math.isclose(math.fsum(shares), 1, abs_tol=1e-6):
        raise InputError(
            f"the shares sum to {math.fsum(shares)}, divide them by their sum so that they sum to 1"
        )
