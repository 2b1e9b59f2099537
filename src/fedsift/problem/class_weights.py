"""One weight per class, or per client: what a site's labels of a class, or a site, are worth.

    ClassWeights    g_m(x, y) = 1/N_m Σ_j x_{c_j} ℓ_j(y) + l2/2 ‖y‖²     x shared, one per class
    ClientWeights   g_m(x, y) = x_m / N_m Σ_j ℓ_j(y) + l2/2 ‖y‖²         x private, one per client
    F(y) = mean ℓ on clean samples

Both are cheaper to learn than a weight per sample, and cannot tell samples of a class apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedsift.problem.batches import LabelledBatch
from fedsift.problem.flat_model import FlatModel

LARGEST = 10.0  # a weight is at most this, so that a class cannot take over the loss


@dataclass(frozen=True)
class ClassWeights:
    """Cross-entropy with one weight per class, shared by all clients.

    Attributes:
        model: The classifier; ``ClassWeights.of(module, classes)`` makes it of a module.
        classes: How many weights x has.
        l2: Coefficient of ½‖y‖².
        x_is_private: False: the server holds x.
    """

    model: FlatModel
    classes: int
    l2: float = 1e-3
    x_is_private: bool = False

    @classmethod
    def of(cls, module: nn.Module, classes: int, l2: float = 1e-3) -> ClassWeights:
        """Make the problem of a classifier."""
        return cls(FlatModel(module), classes, l2)

    def initial_x(self, batch: LabelledBatch | None = None) -> Tensor:  # noqa: ARG002
        """Start with the same weight for all."""
        return torch.ones(self.classes, dtype=self.model.initial().dtype)

    def project(self, x: Tensor) -> Tensor:
        """Keep the weights in [0, 10]."""
        return x.clamp(0.0, LARGEST)

    def outputs(self, y: Tensor, batch: LabelledBatch) -> Tensor:
        """Return the logits."""
        return self.model(y, batch.inputs)

    def output_loss(self, x: Tensor, outputs: Tensor, batch: LabelledBatch) -> Tensor:
        """Return the weighted mean loss."""
        return (x[batch.labels] * cross_entropy(outputs, batch.labels, reduction="none")).mean()

    def inner_loss(self, x: Tensor, y: Tensor, batch: LabelledBatch) -> Tensor:
        """Return g_m(x, y)."""
        return self.output_loss(x, self.outputs(y, batch), batch) + 0.5 * self.l2 * (y @ y)

    def outer_loss(self, x: Tensor, y: Tensor, batch: LabelledBatch) -> Tensor:  # noqa: ARG002
        """Return F(y)."""
        return cross_entropy(self.outputs(y, batch), batch.labels)


@dataclass(frozen=True)
class ClientWeights(ClassWeights):
    """Cross-entropy with one weight per client, which stays there.

    Attributes:
        model: The classifier; ``ClientWeights.of(module)`` makes it of a module.
        classes: How many weights a client has: one.
        l2: Coefficient of ½‖y‖².
        x_is_private: True: every client holds its own x.
    """

    classes: int = 1
    x_is_private: bool = True

    @classmethod
    def of(cls, module: nn.Module, classes: int = 1, l2: float = 1e-3) -> ClientWeights:
        """Make the problem of a classifier; a client has one weight."""
        return cls(FlatModel(module), classes, l2)

    def output_loss(self, x: Tensor, outputs: Tensor, batch: LabelledBatch) -> Tensor:
        """Return the client's weight times its mean loss."""
        return x.sum() * cross_entropy(outputs, batch.labels)
