"""What posterior trains on: a label by its weight, the class that the model predicts by the rest.

    g_m = 1/n Σ_i [x_i ℓ_i + κ (1 − x_i) ℓ'_i] / w + l2/2 ‖y‖²

| symbol | here      | meaning                                                                   |
|--------|-----------|---------------------------------------------------------------------------|
| x_i    | ``x``     | P(right) of the label, 0 for a sample that was not weighed                |
| ℓ'_i   |           | the loss with the predicted class (``bootstrap``)                         |
| κ      | ``trust`` | how far the model can be trusted                                          |
| w      | ``kept``  | the mean of x + κ (1 − x) over all sites in the last round                |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor
from torch.nn.functional import cross_entropy

from fedsift.problem.bootstrap import redirected_losses
from fedsift.problem.protocol import KnownActivations, SampleWeighting, Stack


@dataclass(frozen=True)
class PosteriorLoss:
    """The model of a problem under this loss."""

    problem: SampleWeighting
    trust: float
    kept: float

    def inner_loss(self, x: Tensor, y: Tensor, batch: Any) -> Tensor:
        """Return g_m."""
        losses = self._each(self.problem.outputs(y, batch), batch.labels, x[batch.positions])
        return losses.mean() + 0.5 * self.problem.l2 * (y @ y)

    def widest(self, batch: Any) -> int:
        """Return how many numbers the model's largest layer has for one sample; 0: not known."""
        return self.problem.widest(batch) if isinstance(self.problem, KnownActivations) else 0

    def stack(self, parts: Sequence[tuple[Tensor, Any]]) -> Stack | None:
        """Return several clients' batches as one, where the problem can."""
        plain = self.problem.stack(parts)
        if plain is None:
            return None
        weights, labels = plain.weights, plain.labels

        def losses(ys: Tensor, outputs: Tensor) -> Tensor:
            each = self._each(outputs.flatten(0, 1), labels.flatten(), weights.flatten())
            size = 0.5 * self.problem.l2 * ys.square().sum(dim=1)
            return each.view_as(weights).mean(dim=1) + size

        return replace(plain, losses=losses)

    def _each(self, outputs: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        given = weights * cross_entropy(outputs, labels, reduction="none")
        return (given + redirected_losses(weights, outputs, self.trust)) / self.kept
