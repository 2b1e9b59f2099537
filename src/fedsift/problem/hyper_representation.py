"""A representation that is good for heads: x is a network's body, y its last layer.

    g_m(x, y) = 1/N_m Σ_j ℓ(head(y, body(x, s_j))) + l2/2 ‖y‖²     on a client's training samples
    f_m(x, y) = the same loss on its validation samples, without the penalty

It is the setting of FedNest (Tarzanagh et al., ICML 2022): F is the clients' own, so ``solve`` gets
``validations``.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedsift.problem.batches import LabelledBatch
from fedsift.problem.flat_model import FlatModel


@dataclass(frozen=True)
class HyperRepresentation:
    """Cross-entropy of a head on a body.

    Attributes:
        body: The network whose parameters are x.
        head: The layer whose parameters are y; it gets what the body returns.
        l2: Coefficient of ½‖y‖².
        x_is_private: False: the server holds x.
    """

    body: FlatModel
    head: FlatModel
    l2: float = 1e-3
    x_is_private: bool = False

    @classmethod
    def of(cls, body: nn.Module, head: nn.Module, l2: float = 1e-3) -> HyperRepresentation:
        """Make the problem of two modules; ``head`` gets what ``body`` returns."""
        return cls(FlatModel(body), FlatModel(head), l2)

    def initial_x(self, batch: LabelledBatch | None = None) -> Tensor:  # noqa: ARG002
        """Return the parameters that the body came with."""
        return self.body.initial()

    def project(self, x: Tensor) -> Tensor:
        """Leave x as it is."""
        return x

    def logits(self, x: Tensor, y: Tensor, inputs: Tensor) -> Tensor:
        """Return head(y, body(x, inputs))."""
        return self.head(y, self.body(x, inputs))

    def inner_loss(self, x: Tensor, y: Tensor, batch: LabelledBatch) -> Tensor:
        """Return g_m(x, y)."""
        return self.outer_loss(x, y, batch) + 0.5 * self.l2 * (y @ y)

    def outer_loss(self, x: Tensor, y: Tensor, batch: LabelledBatch) -> Tensor:
        """Return f_m(x, y)."""
        return cross_entropy(self.logits(x, y, batch.inputs), batch.labels)
