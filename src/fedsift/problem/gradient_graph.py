"""∇_y g at one point with its graph kept: many products with both its derivatives.

    product   v ↦ ∇²_yy g v,     a pass back through the graph, towards y
    cross     v ↦ ∇²_xy g v,     the same towards x

Ordinary autograd alone, for any module: no tracing, and the graph that serves the solver's products
gives the cross product as well, where ``cross_product`` needs a forward and a backward pass of its
own. Made from parts of the samples, a convolution's activations stay in a core's cache: 0.8 of the
time with 64 of 256 samples at once on the paper's CNN. A linear model gains nothing by that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedsift.problem.protocol import Problem, chunks


@dataclass(frozen=True, eq=False)
class GradientGraph:
    """∇_y g(x, y) as a function of both."""

    x: Tensor
    y: Tensor
    gradient: Tensor

    @classmethod
    def at(
        cls, problem: Problem, x: Tensor, y: Tensor, batch: Any, length: int = 0
    ) -> GradientGraph:
        """Make it from parts of ``length`` samples; 0: from all at once."""
        x, y = (value.detach().requires_grad_(True) for value in (x, y))
        gradients = []
        for part in chunks(batch, length) if length else (batch,):
            loss = problem.inner_loss(x, y, part)
            (gradient,) = torch.autograd.grad(loss, y, create_graph=True)
            gradients.append(gradient if not length else (len(part) / len(batch)) * gradient)
        return cls(x, y, sum(gradients[1:], gradients[0]))

    def product(self, v: Tensor) -> Tensor:
        """Return ∇²_yy g v."""
        return self._back(v, self.y)

    def cross(self, v: Tensor) -> Tensor:
        """Return ∇²_xy g v."""
        return self._back(v, self.x)

    def _back(self, v: Tensor, to: Tensor) -> Tensor:
        (found,) = torch.autograd.grad(
            self.gradient, to, v, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        return found
