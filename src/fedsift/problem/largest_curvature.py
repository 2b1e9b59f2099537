"""The largest curvature of the inner loss, from which step sizes follow.

    λ_max(Jᵀ Q J) + l2      at y, on clean samples of weight 1: Gauss-Newton, by Lanczos

| symbol | here    | meaning                                                                    |
|--------|---------|----------------------------------------------------------------------------|
| m      | `STEPS` | products with the matrix; T_m, tridiagonal, is its projection on their span |
| θ      |         | the largest eigenvalue of T_m: at most λ_max, and near it after a few steps |

The vectors are made orthogonal to all before them: few, so it costs less than a product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fedsift.problem.curvature import CURVATURES
from fedsift.problem.protocol import Problem, chunk_length, chunks

STEPS = (
    10  # a spectrum with one outlier, as networks have, needs five; the second pass is a reserve
)
SAMPLES = 256  # of the clean set; the largest curvature of a mean varies little between such draws


def largest_curvature(problem: Problem, y: Tensor, clean: Any, source: torch.Generator) -> float:
    """Return λ_max of Gauss-Newton + l2 at y, on at most ``SAMPLES`` clean samples."""
    drawn = torch.randperm(len(clean), generator=source)[:SAMPLES]
    batch, trust = clean.take(drawn), torch.ones_like(problem.initial_x(clean))
    parts = [
        (len(part) / len(batch), CURVATURES["gauss-newton"].once(problem, trust, y, part, 0.0))
        for part in chunks(batch, chunk_length(batch))
    ]

    def product(v: Tensor) -> Tensor:
        return torch.stack([share * part.product(v) for share, part in parts]).sum(dim=0)

    return lanczos(product, torch.randn(len(y), generator=source).to(y), STEPS)


def lanczos(product: Callable[[Tensor], Tensor], start: Tensor, steps: int) -> float:
    """Return the largest Ritz value of a symmetric operator after this many products."""
    return float(ritz_values(product, start, steps)[-1])


def ritz_values(product: Callable[[Tensor], Tensor], start: Tensor, steps: int) -> Tensor:
    """Return the eigenvalues of T_m, ascending; infinite where a product is not finite."""
    basis = [start / start.norm()]
    diagonal, beside = list[float](), list[float]()
    for _ in range(min(steps, len(start))):
        w = product(basis[-1])
        diagonal.append(float(w @ basis[-1]))
        for _ in range(2):  # once is not enough in float32
            for q in basis:
                w = w - (w @ q) * q
        beside.append(float(w.norm()))
        if not beside[-1] > 1e-6 * max(map(abs, diagonal)):
            break  # the span holds all that the start can reach
        basis.append(w / beside[-1])
    T = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    for i, value in enumerate(beside[: len(diagonal) - 1]):
        T[i, i + 1] = T[i + 1, i] = value
    if not bool(torch.isfinite(T).all()):
        return torch.full((len(T),), float("inf"), dtype=torch.float64)
    values: Tensor = torch.linalg.eigvalsh(T)
    return values
