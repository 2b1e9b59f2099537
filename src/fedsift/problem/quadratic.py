"""A federated bilevel problem with closed-form solutions, for tests and for measuring errors.

    g_m(x, y) = ½ yᵀ A_m y − yᵀ (B_m x + c_m)       F(x, y) = ½ ‖y − t‖² + ρ/2 ‖x‖²

With A, B, c the N_m-weighted means:

    y_x = A⁻¹ (B x + c)       v* = A⁻¹ (y − t)       ∇h(x) = ρ x + Bᵀ A⁻¹ (y_x − t)
    argmin h = solution of (ρ I + (A⁻¹B)ᵀ A⁻¹B) x = (A⁻¹B)ᵀ (t − A⁻¹c)

x is shared: the server holds it, and clients return their cross products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedsift.randomness import generator


@dataclass(frozen=True)
class QuadraticClient:
    """A_m, B_m, c_m, and how many samples they represent."""

    A: Tensor
    B: Tensor
    c: Tensor
    num_samples: int

    def __len__(self) -> int:
        return self.num_samples

    def take(self, positions: Tensor) -> QuadraticClient:
        """Return the same quadratic, representing as many samples: it has no single samples."""
        return replace(self, num_samples=len(positions))


@dataclass(frozen=True)
class Quadratic:
    """The two losses and their exact solutions."""

    target: Tensor
    ridge: float
    outer_length: int
    x_is_private: bool = False

    def initial_x(self, batch: object) -> Tensor:  # noqa: ARG002
        """Start from zero."""
        return self.target.new_zeros(self.outer_length)

    def project(self, x: Tensor) -> Tensor:
        """Leave x as it is: every x is allowed."""
        return x

    def inner_loss(self, x: Tensor, y: Tensor, batch: QuadraticClient) -> Tensor:
        """Return g_m(x, y)."""
        return 0.5 * y @ (batch.A @ y) - y @ (batch.B @ x + batch.c)

    def outer_loss(self, x: Tensor, y: Tensor, batch: object) -> Tensor:  # noqa: ARG002
        """Return F(x, y)."""
        return 0.5 * (y - self.target).square().sum() + 0.5 * self.ridge * x.square().sum()

    def inner_solution(self, mean: QuadraticClient, x: Tensor) -> Tensor:
        """Return y_x."""
        return _solve(mean.A, mean.B @ x + mean.c)

    def v_solution(self, mean: QuadraticClient, y: Tensor) -> Tensor:
        """Return v* at y."""
        return _solve(mean.A, y - self.target)

    def hypergradient(self, mean: QuadraticClient, x: Tensor) -> Tensor:
        """Return ∇h(x)."""
        y = self.inner_solution(mean, x)
        return self.ridge * x + mean.B.T @ self.v_solution(mean, y)

    def outer_solution(self, mean: QuadraticClient) -> Tensor:
        """Return argmin_x h(x)."""
        M = _solve(mean.A, mean.B)
        offset = _solve(mean.A, mean.c)
        eye = torch.eye(self.outer_length, dtype=M.dtype)
        return _solve(self.ridge * eye + M.T @ M, M.T @ (self.target - offset))


def mean_client(clients: Sequence[QuadraticClient]) -> QuadraticClient:
    """Pool clients into the one that has the federation's G as its loss."""
    total = sum(c.num_samples for c in clients)
    shares = [c.num_samples / total for c in clients]

    def pool(name: str) -> Tensor:
        parts = [s * getattr(c, name) for s, c in zip(shares, clients, strict=True)]
        return torch.stack(parts).sum(0)

    return QuadraticClient(pool("A"), pool("B"), pool("c"), total)


def _solve(matrix: Tensor, right: Tensor) -> Tensor:
    solution: Tensor = torch.linalg.solve(matrix, right)
    return solution


def random_quadratic(
    clients: int = 5,
    length: int = 40,
    outer_length: int = 6,
    condition: float = 10.0,
    ridge: float = 0.1,
    heavy: int | None = None,
    seed: int = 0,
) -> tuple[Quadratic, list[QuadraticClient]]:
    """Draw a federation in float64 whose A_m all have eigenvalues in [1, condition].

    With ``heavy``, clients couple only that many coordinates and the target is zero elsewhere: then
    ∇q(v) has τ-heavy hitters, as Theorem 1 assumes of a sketch. Without, nothing is sparse.
    """
    source = generator(seed, "quadratic")
    s = length if heavy is None else heavy

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=source)

    eigenvalues = torch.logspace(0, float(torch.tensor(condition).log10()), length).double()
    order = torch.randperm(length, generator=source)
    members = []
    for m in range(clients):
        Q = torch.eye(length, dtype=torch.float64)
        Q[:s, :s] = torch.linalg.qr(normal(s, s)).Q
        A = Q @ torch.diag(eigenvalues[order]) @ Q.T
        B = normal(length, outer_length) / length**0.5
        members.append(QuadraticClient(0.5 * (A + A.T), B, normal(length), 10 * (m + 1)))
    target = normal(length)
    target[s:] = 0.0
    return Quadratic(target, ridge, outer_length), members
