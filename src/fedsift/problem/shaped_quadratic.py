"""Quadratic federations of a chosen shape: condition, stable rank, sparsity, unlike clients.

    A   = Q diag(λ) Qᵀ           λ_i = κ^((1 − u_i)^p),  u_i = i / (d − 1):  from κ down to 1
    A_m = A + A^½ E_m A^½        Σ_m N_m E_m = 0,  max_m ‖E_m‖ = ``difference`` < 1
    t_i = ± (rank of i)^−decay   ∇_y F = −t at y = 0

| knob          | what it does                                                          |
|---------------|-----------------------------------------------------------------------|
| `condition`   | κ = λ_max / λ_min; λ_min = 1                                          |
| `stable_rank` | Σ λ² / κ², by the power p; None: p = 1                                |
| `mixing`      | how far Q is from the identity; None: a random rotation, 0: none      |
| `decay`       | how fast the right-hand side falls, in a random order of coordinates; |
|               | 0: normal numbers                                                     |

The mean of the A_m is A itself, so that the knobs are those of the system that is solved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fedsift.errors import InputError
from fedsift.problem.quadratic import Quadratic, QuadraticClient
from fedsift.randomness import generator


@dataclass(frozen=True)
class Shape:
    """The knobs.

    Attributes:
        length: d.
        condition: κ.
        stable_rank: At least 1 + (d − 1) / κ² and below d; None: that of p = 1.
        mixing: None: a random rotation.
        decay: Of the right-hand side.
        clients: How many, with 10, 20, ... samples.
        difference: How unlike they are: 0 to below 1.
        outer_length: The length of x.
    """

    length: int = 100
    condition: float = 10.0
    stable_rank: float | None = None
    mixing: float | None = None
    decay: float = 0.0
    clients: int = 2
    difference: float = 0.3
    outer_length: int = 1

    def eigenvalues(self) -> Tensor:
        """Return λ, descending."""
        power = 1.0 if self.stable_rank is None else self._power(self.stable_rank)
        return _spectrum(self.length, self.condition, power)

    def _power(self, wanted: float) -> float:
        """Return p by bisection: the stable rank falls with it."""
        low, high = 1e-6, 1e6

        def rank(power: float) -> float:
            spectrum = _spectrum(self.length, self.condition, power)
            return float(spectrum.square().sum() / self.condition**2)

        if not rank(high) <= wanted <= rank(low):
            raise InputError(
                f"no spectrum of {self.length} eigenvalues in [1, {self.condition:g}] has the "
                f"stable rank {wanted:g}; choose it between {rank(high):.3g} and {rank(low):.3g}"
            )
        for _ in range(80):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if rank(middle) > wanted else (low, middle)
        return math.sqrt(low * high)


def shaped_quadratic(
    shape: Shape, seed: int = 0, ridge: float = 0.1
) -> tuple[Quadratic, list[QuadraticClient]]:
    """Draw a federation of this shape, in float64."""
    source = generator(seed, "shaped quadratic")
    d = shape.length

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, dtype=torch.float64, generator=source)

    def rotation() -> Tensor:
        mixed = normal(d, d)
        if shape.mixing is not None:
            mixed = torch.eye(d, dtype=torch.float64) + shape.mixing * mixed / math.sqrt(d)
        Q, R = torch.linalg.qr(mixed)
        signed: Tensor = Q * R.diagonal().sign()
        return signed

    order = torch.randperm(d, generator=source)
    Q, values = rotation(), shape.eigenvalues()[order]
    root = (Q * values.sqrt()) @ Q.T
    sizes = [10 * (m + 1) for m in range(shape.clients)]
    apart = torch.stack([_symmetric(rotation(), normal(d).sign()) for _ in sizes])
    shares = torch.tensor(sizes, dtype=torch.float64) / sum(sizes)
    apart = apart - (shares[:, None, None] * apart).sum(0)
    largest = max(float(torch.linalg.matrix_norm(E, 2)) for E in apart)
    apart = apart * (shape.difference / largest if largest > 0 else 0.0)
    A = (Q * values) @ Q.T
    members = []
    for E, size in zip(apart, sizes, strict=True):
        B = normal(d, shape.outer_length) / math.sqrt(d)
        full = A + root @ E @ root
        members.append(QuadraticClient(0.5 * (full + full.T), B, normal(d), size))
    target = normal(d)
    if shape.decay:
        ranks = 1.0 + torch.randperm(d, generator=source).double()
        target = target.sign() * ranks**-shape.decay
    return Quadratic(target, ridge, shape.outer_length), members


def _spectrum(length: int, condition: float, power: float) -> Tensor:
    u = torch.linspace(0, 1, length, dtype=torch.float64)
    return torch.exp(math.log(condition) * (1 - u) ** power)


def _symmetric(Q: Tensor, values: Tensor) -> Tensor:
    return (Q * values) @ Q.T
