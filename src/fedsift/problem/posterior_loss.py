"""What posterior trains on: rows of all classes in place of labels.

    g_m = −1/n Σ_i Σ_c t_ic log p_ic / w + l2/2 ‖y‖²

| symbol | here   | meaning                                                                     |
|--------|--------|-----------------------------------------------------------------------------|
| t_i    | ``x``  | x_i at the label, (1 − x_i) p' at the predicted class (``label_posterior``); |
|        |        | 0 for a sample that was not weighed                                         |
| w      | `kept` | the mean of Σ_c t_ic over all sites in the last round                       |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor
from torch.nn.functional import cross_entropy

from fedsift.problem.protocol import KnownActivations, SampleWeighting, Stack


@dataclass(frozen=True)
class PosteriorLoss:
    """The model of a problem under this loss."""

    problem: SampleWeighting
    kept: float

    def inner_loss(self, x: Tensor, y: Tensor, batch: Any) -> Tensor:
        """Return g_m."""
        losses = self._each(self.problem.outputs(y, batch), x[batch.positions])
        return losses.mean() + 0.5 * self.problem.l2 * (y @ y)

    def widest(self, batch: Any) -> int:
        """Return how many numbers the model's largest layer has for one sample; 0: not known."""
        return self.problem.widest(batch) if isinstance(self.problem, KnownActivations) else 0

    def stack(self, parts: Sequence[tuple[Tensor, Any]]) -> Stack | None:
        """Return several clients' batches as one, where the problem can."""
        plain = self.problem.stack(parts)
        if plain is None:
            return None
        rows = plain.weights

        def losses(ys: Tensor, outputs: Tensor) -> Tensor:
            each = self._each(outputs.flatten(0, 1), rows.flatten(0, 1))
            size = 0.5 * self.problem.l2 * ys.square().sum(dim=1)
            return each.view(rows.shape[:2]).mean(dim=1) + size

        return replace(plain, losses=losses)

    def _each(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(outputs, targets, reduction="none") / self.kept
