"""Sparse embedding: a random r x d matrix with one ±1 in every column (Corollary 2).

    S[h(i), i] = sigma(i),  0 elsewhere
    E[S^T S] = I,  and for r > 18 / (eps^2 delta), with probability at least 1 - delta,
    ||A^T S^T S B - A^T B|| <= eps ||A||_F ||B||_F

| symbol | here |
|---|---|
| r, d | `rows`, `length` |
| h, sigma | bucket and sign of one row of `HashFamily` |
| tau | `seed`; whoever has it has S |

S is never formed: both products go over the d columns, and d indices are kept per device.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedsift.compress.hashing import HashFamily, check_length
from fedsift.errors import InputError


@dataclass(frozen=True)
class SparseEmbedding:
    """The matrix S in R^{rows x length} that belongs to a seed."""

    rows: int
    length: int
    seed: int
    _kept: dict[torch.device, Tensor] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        check_length(self.length)
        HashFamily(self.seed, 1, self.rows)  # checks rows and seed

    def apply(self, A: Tensor) -> Tensor:
        """Return S A for A of shape [d] or [d, m]."""
        _check(A, self.length, "S A")
        sums = A.new_zeros(2 * self.rows, *A.shape[1:])
        cells = self._cells(A.device)
        if A.is_cuda:  # index_add_ there adds in any order; this one sorts first
            sums.index_put_((cells,), A, accumulate=True)
        else:
            sums.index_add_(0, cells, A)
        return sums[: self.rows] - sums[self.rows :]

    def transpose_apply(self, w: Tensor) -> Tensor:
        """Return S^T w for w of shape [r] or [r, m]."""
        _check(w, self.rows, "S^T w")
        return torch.cat((w, -w)).index_select(0, self._cells(w.device))

    def dense(self) -> Tensor:
        """Return S as a float64 matrix, for tests and small sizes."""
        return self.apply(torch.eye(self.length, dtype=torch.float64))

    def _cells(self, device: torch.device) -> Tensor:
        if device not in self._kept:
            blocks = HashFamily(self.seed, 1, self.rows).blocks(self.length, device)
            self._kept[device] = torch.cat([cells[0] for _, cells in blocks])
        return self._kept[device]


def _check(x: Tensor, size: int, product: str) -> None:
    if x.ndim not in {1, 2} or len(x) != size or not x.is_floating_point():
        raise InputError(
            f"{product} needs a real tensor of shape [{size}] or [{size}, m] but was given"
            f" {x.dtype} of shape {list(x.shape)}; reshape or convert it"
        )
