"""Weight decay that is learned: one L2 coefficient per group of parameters.

    g_m(x, y) = 1/N_m Σ_j ℓ_j(y) + ½ Σ_i e^{x_i} ‖y_i‖²        F(y) = mean ℓ on clean samples

x_i is the logarithm of the coefficient of group i: a layer's weights, its bias, or what
``group_of`` says of a parameter's name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedsift.problem.batches import LabelledBatch
from fedsift.problem.flat_model import FlatModel

SMALLEST, LARGEST = math.log(1e-6), math.log(1e2)  # coefficients beyond these change nothing more


@dataclass(frozen=True, eq=False)
class GroupL2:
    """Cross-entropy with learned weight decay.

    Attributes:
        model: The classifier; ``GroupL2.of(module)`` makes it of a module.
        names: The names of the groups, in the order of x.
        places: The group of every parameter.
        start: The coefficient that all groups start with.
        x_is_private: False: the server holds x.
    """

    model: FlatModel
    names: tuple[str, ...]
    places: Tensor
    start: float = 1e-3
    x_is_private: bool = False

    @classmethod
    def of(
        cls,
        module: nn.Module,
        group_of: Callable[[str], str] = lambda name: name,
        start: float = 1e-3,
    ) -> GroupL2:
        """Make the problem of a classifier; by default every parameter tensor is a group."""
        model = FlatModel(module)
        parts = model.unflatten(model.initial())
        names = tuple(dict.fromkeys(group_of(name) for name in parts))
        places = [
            torch.full((part.numel(),), names.index(group_of(name)), dtype=torch.long)
            for name, part in parts.items()
        ]
        return cls(model, names, torch.cat(places), start)

    def initial_x(self, batch: LabelledBatch | None = None) -> Tensor:  # noqa: ARG002
        """Start with the same coefficient for all."""
        return torch.full((len(self.names),), math.log(self.start), dtype=self._dtype)

    @property
    def _dtype(self) -> torch.dtype:
        return self.model.initial().dtype

    def project(self, x: Tensor) -> Tensor:
        """Keep the coefficients in [10⁻⁶, 10²]."""
        return x.clamp(SMALLEST, LARGEST)

    def inner_loss(self, x: Tensor, y: Tensor, batch: LabelledBatch) -> Tensor:
        """Return g_m(x, y)."""
        penalty = 0.5 * (x.exp()[self.places.to(y.device)] * y.square()).sum()
        return self.outer_loss(x, y, batch) + penalty

    def outer_loss(self, x: Tensor, y: Tensor, batch: LabelledBatch) -> Tensor:  # noqa: ARG002
        """Return F(y)."""
        return cross_entropy(self.model(y, batch.inputs), batch.labels)
