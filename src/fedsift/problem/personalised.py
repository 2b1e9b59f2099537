"""A model for every client, near one that all share: implicit MAML, or a proximal personalisation.

    g_m(x, y) = 1/N_m Σ_j ℓ_j(y) + λ/2 ‖y − x‖²      on a client's training samples
    f_m(x, y) = the mean ℓ on its validation samples

y_m(x) is what client m makes of the shared x; x is where all of them start from best (Rajeswaran et
al., NeurIPS 2019, with any number of clients and their own samples of f_m). λ says how far a client
may go: with λ = ∞ it is one model for all, with λ = 0 every client is alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedsift.problem.batches import LabelledBatch
from fedsift.problem.flat_model import FlatModel


@dataclass(frozen=True)
class Personalised:
    """Cross-entropy of a client's own model, held near the shared one.

    Attributes:
        model: The classifier; ``Personalised.of(module)`` makes it of a module.
        strength: λ.
        x_is_private: False: the server holds x.
        y_is_private: True: every client has its own y.
    """

    model: FlatModel
    strength: float = 1.0
    x_is_private: bool = False
    y_is_private: bool = True

    @classmethod
    def of(cls, module: nn.Module, strength: float = 1.0) -> Personalised:
        """Make the problem of a classifier."""
        return cls(FlatModel(module), strength)

    def initial_x(self, batch: LabelledBatch | None = None) -> Tensor:  # noqa: ARG002
        """Return the parameters that the module came with."""
        return self.model.initial()

    def project(self, x: Tensor) -> Tensor:
        """Leave x as it is."""
        return x

    def inner_loss(self, x: Tensor, y: Tensor, batch: LabelledBatch) -> Tensor:
        """Return g_m(x, y)."""
        return self.outer_loss(x, y, batch) + 0.5 * self.strength * (y - x).square().sum()

    def outer_loss(self, x: Tensor, y: Tensor, batch: LabelledBatch) -> Tensor:  # noqa: ARG002
        """Return f_m(y)."""
        return cross_entropy(self.model(y, batch.inputs), batch.labels)
