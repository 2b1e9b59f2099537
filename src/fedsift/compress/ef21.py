"""EF21 (Richtárik, Sokolov and Fatkhullin, NeurIPS 2021) for products: send what has changed.

    client m   c_m = C(p_m - g_m),   g_m += c_m         p_m = H_m v
    server     G  += sum_m w_m c_m,  Delta = alpha G    G = sum_m w_m g_m

| symbol | here | meaning |
|---|---|---|
| g_m | the client's memory | what it has sent so far of its product |
| G | the server's memory | their mean over all clients that have sent any |
| C | Top-k, or any other with ||C(p) - p||^2 <= (1 - k/d) ||p||^2 | contractive |

v converges, and with it p_m; so p_m - g_m goes to zero, and with a *constant* step G goes to Hv:
linearly, where the listing stalls. The theory asks for alpha L <= 1 / (1 + s), s = sqrt(1 - k/d) /
(1 - sqrt(1 - k/d)) < 2 d / k: about k / 2d. Products of trained models allow far more.

Whoever misses an iteration (cohorts): its g_m stays as it is, at the client and in G (EF21-PP,
Fatkhullin et al. 2021). The server keeps sum N_m g_m and sum N_m of those in it, so it needs no
list of them. A client that comes in later sends its product whole, once; where v was 0 before,
g_m = 0 is exact and nothing is sent whole. If a reply is lost, the two sides may differ: the caller
then starts a new epoch, in which every client sends its product whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedsift.compress.error_feedback import Usual, check_shares, same_shape
from fedsift.compress.payload import Compressor, Payload


@dataclass(frozen=True)
class EF21(Usual):
    """Both sides keep what was sent; the difference to it is compressed."""

    compressor: Compressor

    form = "ef21"
    poolable = False

    def client(
        self,
        product: Tensor,
        step: float,  # noqa: ARG002 - the server applies it
        memory: Tensor | None,
        *,
        fresh: bool = True,
    ) -> tuple[Payload, Tensor]:
        """Send C(p - g_m) and keep g_m + C(p - g_m); without a memory send p, unless fresh."""
        product = product.detach()
        if memory is None and not fresh:
            return product, product
        known = torch.zeros_like(product) if memory is None else same_shape(memory, product)
        payload = self.compressor.compress(product - known)
        return payload, known + self.compressor.decompress(payload)

    def left(self, product: Tensor, step: float, memory: Tensor | None) -> float:
        """Return alpha ||p - g_m||."""
        known = torch.zeros_like(product) if memory is None else memory
        return step * float((product - known).norm())

    def server(
        self,
        payloads: Sequence[Payload],
        shares: Sequence[float],
        step: float,
        memory: Tensor | None,
        right: Tensor | None = None,  # noqa: ARG002 - the caller adds it
        total: float = 1.0,
    ) -> tuple[Tensor, Tensor]:
        """Return Delta = alpha G, and [sum N_m g_m, sum N_m] of all that are in it."""
        check_shares(payloads, shares)
        first, d = memory is None, self.compressor.length
        for payload, share in zip(payloads, shares, strict=True):
            whole = isinstance(payload, Tensor)
            sent = payload if isinstance(payload, Tensor) else self.compressor.decompress(payload)
            if memory is None:
                memory = sent.new_zeros(d + 1)
            added = torch.cat((sent, sent.new_full((1,), float(first or whole))))
            memory = memory + share * total * added
        assert memory is not None
        return step * memory[:d] / memory[d], memory
