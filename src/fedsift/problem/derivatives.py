"""The derivatives that bilevel optimisation needs, through ``torch.func``, for any two losses.

| here                  | paper            |
|-----------------------|------------------|
| ``inner_gradient``    | ∇_y g_m          |
| ``outer_gradients``   | ∇_x F, ∇_y F     |
| ``hessian_product``   | ∇²_yy g_m v      |
| ``cross_product``     | ∇²_xy g_m v      |

These are the plain versions; ``curvature`` and ``client.passes`` have the fast ones.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.func import grad, jvp, vjp

from fedsift.problem.protocol import Problem


def inner_gradient(problem: Problem, x: Tensor, y: Tensor, batch: Any) -> Tensor:
    """Return ∇_y g_m(x, y)."""
    return _tensor(grad(lambda y_: problem.inner_loss(x, y_, batch))(y))


def outer_gradients(problem: Problem, x: Tensor, y: Tensor, batch: Any) -> tuple[Tensor, Tensor]:
    """Return (∇_x F, ∇_y F) at (x, y), by ordinary autograd: any module has that."""
    return outer_loss_and_gradients(problem, x, y, batch)[1:]


def outer_loss_and_gradients(
    problem: Problem, x: Tensor, y: Tensor, batch: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (F, ∇_x F, ∇_y F) at (x, y)."""
    x, y = (value.detach().requires_grad_(True) for value in (x, y))
    loss = problem.outer_loss(x, y, batch)
    gx, gy = torch.autograd.grad(loss, (x, y), allow_unused=True, materialize_grads=True)
    return loss.detach(), gx, gy


def hessian_product(problem: Problem, x: Tensor, y: Tensor, batch: Any, v: Tensor) -> Tensor:
    """Return ∇²_yy g_m(x, y) v: the derivative of the gradient along v."""
    return _tensor(jvp(lambda y_: inner_gradient(problem, x, y_, batch), (y,), (v,))[1])


def cross_product(problem: Problem, x: Tensor, y: Tensor, batch: Any, v: Tensor) -> Tensor:
    """Return ∇²_xy g_m(x, y) v = ∇_x ⟨∇_y g_m(x, y), v⟩."""
    pull = vjp(lambda x_: inner_gradient(problem, x_, y, batch), x)[1]
    return _tensor(pull(v)[0])


def _tensor(value: Any) -> Tensor:
    assert isinstance(value, Tensor)
    return value
