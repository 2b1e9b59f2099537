"""Noisy labels (Eq. 5 of the paper): one weight in [0, 1] per training sample.

    g_m(λ, ω) = 1/N_m Σ_j λ_j ℓ(ω; s_j) + l2/2 ‖ω‖²        F(ω) = ℓ(ω; D_val)
    ∂/∂λ_j ⟨∇_ω g_m, v⟩ = ⟨∇ℓ_j, v⟩ / N_m

The cross product needs ⟨∇ℓ_j, v⟩ for all samples: one forward-mode pass along v gives all of
them, because it is the derivative of the vector of sample losses.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import jvp
from torch.nn.functional import cross_entropy

from fedsift.problems.flat_model import FlatModel


@dataclass(frozen=True)
class Samples:
    """Inputs and labels; ``positions`` says which entry of x weighs each sample."""

    inputs: Tensor
    labels: Tensor
    positions: Tensor

    @classmethod
    def of(cls, inputs: Tensor, labels: Tensor) -> Samples:
        """Give the samples the positions 0, 1, ..."""
        return cls(inputs, labels, torch.arange(len(labels), device=labels.device))

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, positions: Tensor) -> Samples:
        """Return the samples at these positions."""
        at = positions.to(self.labels.device)
        return Samples(self.inputs[at], self.labels[at], self.positions[at])


@dataclass(frozen=True)
class Reweighting:
    """Per-sample cross-entropy of any classifier, weighted by x."""

    model: FlatModel
    l2: float = 1e-3
    initial_weight: float = 1.0
    x_is_private: bool = True

    def initial_x(self, batch: Samples) -> Tensor:
        """Trust every sample of the client alike."""
        return torch.full((len(batch),), self.initial_weight, device=batch.labels.device)

    def project(self, x: Tensor) -> Tensor:
        """Clip the weights to [0, 1]."""
        return x.clamp(0.0, 1.0)

    def outputs(self, y: Tensor, batch: Samples) -> Tensor:
        """Return the logits."""
        return self.model(y, batch.inputs)

    def sample_losses(self, y: Tensor, batch: Samples) -> Tensor:
        """Return ℓ(y; s_j) for every sample."""
        return cross_entropy(self.outputs(y, batch), batch.labels, reduction="none")

    def output_loss(self, x: Tensor, outputs: Tensor, batch: Samples) -> Tensor:
        """Return the mean of λ_j ℓ_j, convex in the logits because λ ≥ 0."""
        losses = cross_entropy(outputs, batch.labels, reduction="none")
        return (x[batch.positions] * losses).mean()

    def inner_loss(self, x: Tensor, y: Tensor, batch: Samples) -> Tensor:
        """Return g_m(x, y)."""
        return self.output_loss(x, self.outputs(y, batch), batch) + 0.5 * self.l2 * (y @ y)

    def outer_loss(self, x: Tensor, y: Tensor, batch: Samples) -> Tensor:  # noqa: ARG002
        """Return F(y): the mean loss, every sample weighing the same."""
        return cross_entropy(self.outputs(y, batch), batch.labels)

    def scores(self, y: Tensor, batch: Samples, v: Tensor) -> Tensor:
        """Return ⟨∇ℓ_j(y), v⟩ for every sample, in one forward-mode pass."""
        tangent: Tensor = jvp(lambda y_: self.sample_losses(y_, batch), (y,), (v,))[1]
        return tangent

    def cross_product(self, x: Tensor, y: Tensor, batch: Samples, v: Tensor) -> Tensor:
        """Return ∇²_xy g_m v; zero for weights whose sample is not in the batch."""
        product = torch.zeros_like(x)
        product[batch.positions] = self.scores(y, batch, v).to(x.dtype) / len(batch)
        return product
