"""Noisy labels (Eq. 7 of the paper): one weight in [0, 1] per training sample.

    g_m(λ, ω) = 1/N_m Σ_j [λ_j ℓ_j + κ (1 − λ_j) ℓ'_j] + l2/2 ‖ω‖²        F(ω) = ℓ(ω; D_val)
    ∂/∂λ_j ⟨∇_ω g_m, v⟩ = ⟨∇ℓ_j − κ ∇ℓ'_j, v⟩ / N_m

ℓ_j is the cross-entropy of sample j with its label. The paper has κ = 0; ``bootstrap`` is ours.

The cross product needs ⟨∇ℓ_j, v⟩ for all samples: one forward-mode pass along v gives all of
them, because ∇ℓ_j = Jᵀ(p_j − e_j), and ∇ℓ'_j the same with the e of the predicted class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedsift.problem.batches import LabelledBatch
from fedsift.problem.bootstrap import redirected_losses, sample_scores
from fedsift.problem.flat_model import FlatModel
from fedsift.problem.protocol import Stack
from fedsift.problem.run_modes import RunModes
from fedsift.problem.sample_losses import label_agreement
from fedsift.problem.stacked_model import stacked_model


@dataclass(frozen=True)
class Reweighting:
    """Per-sample cross-entropy of any classifier, weighted by x.

    Attributes:
        model: The classifier; ``Reweighting.of(module)`` makes it of a module.
        l2: Coefficient of ½‖y‖².
        initial_weight: The weight of every sample at the start.
        bootstrap: κ, the share of a lost weight that goes to the predicted class.
        x_is_private: True: every client holds its samples' weights.
    """

    model: FlatModel
    l2: float = 1e-3
    initial_weight: float = 1.0
    bootstrap: float = 0.0
    x_is_private: bool = True

    @classmethod
    def of(cls, module: nn.Module, l2: float = 1e-3) -> Reweighting:
        """Make the problem of a classifier, as in the paper."""
        return cls(FlatModel(module), l2)

    @property
    def modes(self) -> RunModes:
        """How the model is differentiated."""
        return self.model.modes

    def initial_x(self, batch: LabelledBatch) -> Tensor:
        """Give every sample of the client the same weight."""
        return torch.full((len(batch),), self.initial_weight, device=batch.labels.device)

    def project(self, x: Tensor) -> Tensor:
        """Clip the weights to [0, 1]."""
        return x.clamp(0.0, 1.0)

    def outputs(self, y: Tensor, batch: LabelledBatch) -> Tensor:
        """Return the logits."""
        return self.model(y, batch.inputs)

    def sample_losses(self, y: Tensor, batch: LabelledBatch) -> Tensor:
        """Return ℓ(y; s_j) for every sample."""
        return cross_entropy(self.outputs(y, batch), batch.labels, reduction="none")

    def output_loss(self, x: Tensor, outputs: Tensor, batch: LabelledBatch) -> Tensor:
        """Return the mean of λ_j ℓ_j + κ (1 − λ_j) ℓ'_j, convex in the logits as 0 ≤ λ ≤ 1."""
        losses = self._weighted(x[batch.positions], outputs, batch.labels)
        return (losses if batch.scale is None else batch.scale * losses).mean()

    def inner_loss(self, x: Tensor, y: Tensor, batch: LabelledBatch) -> Tensor:
        """Return g_m(x, y)."""
        return self.output_loss(x, self.outputs(y, batch), batch) + 0.5 * self.l2 * (y @ y)

    def outer_loss(self, x: Tensor, y: Tensor, batch: LabelledBatch) -> Tensor:  # noqa: ARG002
        """Return F(y): the mean loss, every sample weighing the same."""
        return self.outer_from(self.outputs(y, batch), batch)

    def outer_from(self, outputs: Tensor, batch: LabelledBatch) -> Tensor:
        """Return F by the outputs."""
        return cross_entropy(outputs, batch.labels)

    def cross_from(self, x: Tensor, outputs: Tensor, along: Tensor, batch: LabelledBatch) -> Tensor:
        """Return ∇²_xy g_m v from J v: ((1 − κ) p_j − e_j + κ e'_j)·(J v)_j for sample j."""
        return self._at(x, self.scores(outputs, along, batch.labels) / len(batch), batch)

    def scores(self, outputs: Tensor, along: Tensor, labels: Tensor) -> Tensor:
        """Return ((1 − κ) p_j − e_j + κ e'_j)·(J v)_j for sample j."""
        return sample_scores(outputs, along, labels, self.bootstrap)

    def bent(self, weights: Tensor, outputs: Tensor, along: Tensor) -> Tensor:
        """Return (λ_j + κ (1 − λ_j)) (diag(p_j) − p_j p_jᵀ) (J v)_j for sample j."""
        p, mass = outputs.softmax(dim=-1), weights + self.bootstrap * (1 - weights)
        change = p * along
        return mass[..., None] * (change - p * change.sum(dim=-1, keepdim=True))

    def widest(self, batch: Any) -> int:
        """Return how many numbers the largest layer has for one sample; 0: not known."""
        if not len(batch):
            return 0
        known = self.model.known_widest(batch.inputs.shape[1:])
        return known or self.model.widest(batch.take(batch.labels.new_zeros(1)).inputs)

    def agreement(self, x: Tensor, outputs: Tensor, batch: LabelledBatch) -> Tensor:
        """Return p(label) / (p(label) + the largest other p) per sample."""
        return self._at(x, label_agreement(outputs, batch.labels), batch)

    def pool(
        self, parts: Sequence[tuple[Tensor, LabelledBatch, float]]
    ) -> tuple[Tensor, LabelledBatch]:
        """Return the samples of several clients as one batch.

        Each counts share · n / n_m: the pool's mean is then that of the clients' means.
        """
        n = sum(len(batch) for _, batch, _ in parts)
        start, positions, scales = 0, [], []
        for x, batch, share in parts:
            scales.append(torch.full_like(x[batch.positions], share * n / max(len(batch), 1)))
            positions.append(batch.positions + start)
            start += len(x)
        inputs = torch.cat([batch.inputs for _, batch, _ in parts])
        labels = torch.cat([batch.labels for _, batch, _ in parts])
        pooled = LabelledBatch(inputs, labels, torch.cat(positions), torch.cat(scales))
        return torch.cat([x for x, _, _ in parts]), pooled

    def stack(self, parts: Sequence[tuple[Tensor, LabelledBatch]]) -> Stack | None:
        """Return the clients' batches as one, with a row of Y per client."""
        inputs = torch.stack([batch.inputs for _, batch in parts])
        outputs = stacked_model(self.model, inputs)
        if outputs is None:
            return None
        labels = torch.stack([batch.labels for _, batch in parts])
        weights = torch.stack([x[batch.positions] for x, batch in parts])

        def losses(ys: Tensor, found: Tensor) -> Tensor:
            each = self._weighted(weights.flatten(), found.flatten(0, 1), labels.flatten())
            return each.view_as(weights).mean(dim=1) + 0.5 * self.l2 * ys.square().sum(dim=1)

        places = torch.stack([batch.positions for _, batch in parts])
        return Stack(outputs, losses, weights, labels, places)

    def _weighted(self, weights: Tensor, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return λ_j ℓ_j + κ (1 − λ_j) ℓ'_j per sample."""
        losses = weights * cross_entropy(outputs, labels, reduction="none")
        if not self.bootstrap:
            return losses
        return losses + redirected_losses(weights, outputs, self.bootstrap)

    def _at(self, x: Tensor, values: Tensor, batch: LabelledBatch) -> Tensor:
        """Return a vector like x with these values at the batch's positions, else zero."""
        return torch.zeros_like(x).index_put_((batch.positions,), values.to(x.dtype))
