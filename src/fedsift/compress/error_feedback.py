"""Error feedback: what compression left out is kept and added back at the next iteration.

Algorithm 2 needs a step Delta ~ alpha * sum_m w_m H_m v from the clients' products H_m v, with
w_m = N_m / sum N. Who remembers the error depends on the compressor:

| | client sends | client memory | Delta | server memory |
|---|---|---|---|---|
| `NoFeedback` | S(p) | - | alpha sum w_m U(S_m) | - |
| `ClientFeedback` | S(q), q = alpha p + e_m | q - U(S(q)) | sum w_m U(S_m) | - |
| `SketchFeedback` | S(p) | - | U(z), z = alpha sum w_m S_m + S_e | z - S(Delta) |

`SketchFeedback` (in `sketch_feedback.py`) is lines 6-10 of Algorithm 2. A memory of None is a
memory of zeros. These three are the *listing*; there are two other forms (`FORMS`):

| form | compresses | with a constant step | file |
|---|---|---|---|
| `listing` | alpha H_m v + e_m | stalls | this one, `sketch_feedback` |
| `gradient` | alpha (H_m v - grad F) + e_m: Eq. 12 | stalls later | `gradient_feedback` |
| `ef21` | H_m v - g_m, g_m: what it has sent | converges | `ef21`, `sketch_tracking` |

The first two need alpha L <= O(k / d): the memory is of the order of d / k steps. A dense product
with a larger one keeps a memory that is larger than the solution, or diverges.

A feedback also says what only it can know of a step: how large the error has grown (`left`,
`error`), whether clients in one process may reply with the payload of their mean product
(`poolable`), whether they must be sent the right-hand side (`needs_right`). So nothing outside this
package asks which compressor is in use. A compressor that none of these suits brings a feedback in
its own file and names it in its row of the table. How good v is it does not say: what steers v must
not judge it (``hypergradient/residual.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from torch import Tensor

from fedsift.compress.payload import Compressor, Payload
from fedsift.errors import InputError

FORMS = ("listing", "gradient", "ef21")


class Feedback(Protocol):
    """The two halves of one compressed step, which return (value, new memory), and its measures."""

    @property
    def compressor(self) -> Compressor:
        """The S and U in use."""
        ...

    @property
    def form(self) -> str:
        """Its name in the table of forms."""
        ...

    @property
    def poolable(self) -> bool:
        """True if S(sum w_m p_m) may replace every S(p_m): S linear, no error at the clients."""
        ...

    @property
    def step_share(self) -> float:
        """The share of the step without compression that is stable with it."""
        ...

    @property
    def needs_right(self) -> bool:
        """True if clients compress H_m v - right, so that `right` must be sent to them."""
        ...

    def turned(self, *turn: int) -> Self:
        """Return the feedback of one iteration, for a compressor that is drawn anew each time."""
        ...

    def client(
        self, product: Tensor, step: float, memory: Tensor | None, *, fresh: bool = True
    ) -> tuple[Payload, Tensor | None]:
        """Return what the client sends for its product, and what it keeps.

        ``fresh``: v was 0 one iteration before, so that a memory of zeros is what it should be.
        """
        ...

    def left(self, product: Tensor, step: float, memory: Tensor | None) -> float:
        """Return the norm of what `client` left out of alpha p, by what it keeps."""
        ...

    def server(
        self,
        payloads: Sequence[Payload],
        shares: Sequence[float],
        step: float,
        memory: Tensor | None,
        right: Tensor | None = None,
        total: float = 1.0,
    ) -> tuple[Tensor, Tensor | None]:
        """Return Delta from what the clients sent; `shares` are N_m / sum N, `total` is sum N.

        The step is then v' = v - (Delta - alpha right).
        """
        ...

    def error(self, memory: Tensor | None, at_clients: float) -> float:
        """Return the norm of the error, given the server's memory and the clients' mean norm."""
        ...


class Usual:
    """What most feedbacks have in common: one compressor for all iterations, no right-hand side.

    Where nothing else is said, the form is the listing's and the error is at the clients.
    """

    form = "listing"
    needs_right = False

    @property
    def step_share(self) -> float:
        """Return 1: the k largest hold most of the products of trained models."""
        return 1.0

    def turned(self, *turn: int) -> Self:  # noqa: ARG002 - the same compressor every time
        """Return itself."""
        return self

    def left(self, product: Tensor, step: float, memory: Tensor | None) -> float:  # noqa: ARG002
        """Return the norm of the memory, which is the error."""
        return 0.0 if memory is None else float(memory.norm())

    def error(self, memory: Tensor | None, at_clients: float) -> float:  # noqa: ARG002
        """Return what the clients report."""
        return at_clients


@dataclass(frozen=True)
class NoFeedback(Usual):
    """Forget the error; exact when the compressor is."""

    compressor: Compressor

    @property
    def poolable(self) -> bool:
        """As the compressor is: linear or not."""
        return self.compressor.linear

    def client(
        self,
        product: Tensor,
        step: float,  # noqa: ARG002 - the server applies it
        memory: Tensor | None,  # noqa: ARG002 - there is none
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
        memory: Tensor | None,  # noqa: ARG002 - there is none
        right: Tensor | None = None,  # noqa: ARG002 - the caller adds it
        total: float = 1.0,  # noqa: ARG002
    ) -> tuple[Tensor, None]:
        """Return Delta = alpha sum w_m U(S_m)."""
        check_shares(payloads, shares)
        return step * weighted_sum(map(self.compressor.decompress, payloads), shares), None


@dataclass(frozen=True)
class ClientFeedback(Usual):
    """Each client keeps the error of its own compression, as Top-k needs."""

    compressor: Compressor

    @property
    def poolable(self) -> bool:
        """Never: each client has an error of its own."""
        return False

    def client(
        self,
        product: Tensor,
        step: float,
        memory: Tensor | None,
        *,
        fresh: bool = True,  # noqa: ARG002 - no error is zero in any iteration
    ) -> tuple[Payload, Tensor]:
        """Send S(q) for q = alpha p + e_m and keep q - U(S(q))."""
        wanted = step * product
        if memory is not None:
            wanted = wanted + same_shape(memory, wanted)
        payload = self.compressor.compress(wanted)
        return payload, wanted.detach() - self.compressor.decompress(payload)

    def server(
        self,
        payloads: Sequence[Payload],
        shares: Sequence[float],
        step: float,  # noqa: ARG002 - the clients have applied it
        memory: Tensor | None,  # noqa: ARG002 - the clients have it
        right: Tensor | None = None,  # noqa: ARG002 - the caller adds it
        total: float = 1.0,  # noqa: ARG002
    ) -> tuple[Tensor, None]:
        """Return Delta = sum w_m U(S_m)."""
        check_shares(payloads, shares)
        return weighted_sum(map(self.compressor.decompress, payloads), shares), None


def weighted_sum(terms: Iterable[Tensor], shares: Sequence[float]) -> Tensor:
    """Return sum_m w_m t_m, with one term in memory at a time."""
    weighted = (share * term for term, share in zip(terms, shares, strict=True))
    total = next(weighted)
    for term in weighted:
        total = total.add_(term)
    return total


def same_shape(memory: Tensor, other: Tensor) -> Tensor:
    """Return the memory, or refuse one of another shape."""
    if memory.shape != other.shape:
        raise InputError(
            f"the error memory has shape {tuple(memory.shape)} where {tuple(other.shape)} is"
            " expected; start from None when the compressor changes"
        )
    return memory


def check_shares(payloads: Sequence[Payload], shares: Sequence[float]) -> None:
    """Refuse shares that are not one per payload with sum 1."""
    if not payloads or len(payloads) != len(shares):
        raise InputError(
            f"{len(payloads)} payloads came with {len(shares)} shares; give one share per payload"
        )
    if not math.isclose(math.fsum(shares), 1, abs_tol=1e-6):
        raise InputError(
            f"the shares sum to {math.fsum(shares)}; divide them by their sum so that they sum to 1"
        )
