"""The curvature of the inner loss at one point, as a linear operator.

    Hessian        v ↦ ∇²_yy g(x, y) v + damping · v
    GaussNewton    v ↦ Jᵀ Q J v + (l2 + damping) · v,   J = ∂outputs/∂y,  Q = ∇²_outputs loss

An operator is made once at (x, y, batch) and applied often: what does not depend on v is computed
when it is made. Gauss-Newton is positive semidefinite for any network, because Q is for a convex
output loss; the Hessian of a network is not, and the linear system that defines v may then have no
minimiser. Both agree where the outputs are linear in y.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.func import grad, jvp, vjp, vmap

from fedsift.errors import InputError
from fedsift.problem import Composite, Problem


class Operator(Protocol):
    """A symmetric linear map on R^d."""

    def product(self, v: Tensor) -> Tensor:
        """Return the operator applied to a vector."""
        ...


@dataclass(frozen=True)
class Hessian:
    """∇²_yy g at one point: the graph of the gradient is kept, a product is a pass back."""

    pull: Callable[[Tensor], tuple[Tensor]]
    damping: float

    def product(self, v: Tensor) -> Tensor:
        """Return (∇²_yy g + damping) v; a Hessian is its own transpose."""
        return self.pull(v)[0] + self.damping * v


@dataclass(frozen=True)
class GaussNewton:
    """Jᵀ Q J at one point: forward mode for J v, then the kept graph for Jᵀ u."""

    push: Callable[[Tensor], Tensor]
    bend: Callable[[Tensor], Tensor]
    pull: Callable[[Tensor], tuple[Tensor]]
    shift: float

    def product(self, v: Tensor) -> Tensor:
        """Return (Jᵀ Q J + l2 + damping) v."""
        return self.pull(self.bend(self.push(v)))[0] + self.shift * v


def hessian(problem: Problem, x: Tensor, y: Tensor, batch: Any, damping: float = 0.0) -> Hessian:
    """Make the Hessian operator at (x, y)."""

    def loss(y_: Tensor) -> Tensor:
        return problem.inner_loss(x, y_, batch)

    return Hessian(vjp(grad(loss), y)[1], damping)


def gauss_newton(
    problem: Problem, x: Tensor, y: Tensor, batch: Any, damping: float = 0.0
) -> GaussNewton:
    """Make the Gauss-Newton operator at (x, y)."""
    if not isinstance(problem, Composite):
        raise InputError(
            f"{type(problem).__name__} has no Gauss-Newton matrix because its inner loss is not "
            "written as a loss of outputs; use curvature 'hessian'"
        )

    def outputs(y_: Tensor) -> Tensor:
        return problem.outputs(y_, batch)

    def push(v: Tensor) -> Tensor:
        tangent: Tensor = jvp(outputs, (y,), (v,))[1]
        return tangent

    def loss(outputs_: Tensor) -> Tensor:
        return problem.output_loss(x, outputs_, batch)

    point, pull = vjp(outputs, y)[:2]
    bend = vjp(grad(loss), point)[1]
    return GaussNewton(push, lambda u: bend(u)[0], pull, problem.l2 + damping)


CURVATURES: dict[str, Callable[..., Operator]] = {
    "hessian": hessian,
    "gauss-newton": gauss_newton,
}


def products(operator: Operator, columns: Tensor, chunk: int = 4) -> Tensor:
    """Return operator @ columns for a matrix [d, m], ``chunk`` columns in one pass."""
    if columns.shape[1] == 0:
        return torch.empty_like(columns)
    out: Tensor = vmap(operator.product, in_dims=1, out_dims=1, chunk_size=chunk)(columns)
    return out
