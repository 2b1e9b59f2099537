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

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import grad, jvp, vjp

from fedsift.problem.protocol import Problem, SampleWeighting, chunks, pass_length

NUMBERS, FEWEST = 2**22, 64  # of the inputs that the server's pass takes at once, and samples


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
    return outer_pass(problem, x, y, batch)[:3]


class OuterPass(NamedTuple):
    """F and its gradients; ``outputs`` are those of the samples, where F is a mean over samples."""

    loss: Tensor
    gx: Tensor
    gy: Tensor
    outputs: Tensor | None


def outer_pass(problem: Problem, x: Tensor, y: Tensor, batch: Any) -> OuterPass:
    """Return F and its gradients at (x, y); of many samples, the sums over parts of them."""
    x, y = (value.detach().requires_grad_(True) for value in (x, y))
    sums: list[Tensor] = []
    seen: list[Tensor] = []
    for share, part in _parts(problem, batch):
        if isinstance(problem, SampleWeighting):
            outputs = problem.outputs(y, part)
            seen.append(outputs.detach())
            loss = problem.outer_from(outputs, part)
        else:
            loss = problem.outer_loss(x, y, part)
        gx, gy = torch.autograd.grad(loss, (x, y), allow_unused=True, materialize_grads=True)
        found = [loss.detach(), gx, gy]
        if share < 1:
            found = [share * value for value in found]
        sums = found if not sums else [a + b for a, b in zip(sums, found, strict=True)]
    return OuterPass(sums[0], sums[1], sums[2], torch.cat(seen) if seen else None)


@torch.no_grad()
def outer_value(problem: Problem, x: Tensor, y: Tensor, batch: Any) -> Tensor:
    """Return F(x, y) alone; of many samples, the sum over parts of them."""
    parts = _parts(problem, batch)
    values = [
        (value if share == 1 else share * value)
        for share, value in ((share, problem.outer_loss(x, y, part)) for share, part in parts)
    ]
    return sum(values[1:], values[0])


def _parts(problem: Problem, batch: Any) -> Iterator[tuple[float, Any]]:
    """Cut a batch whose loss is a mean over samples, so that a pass fits into memory."""
    shape: tuple[int, ...] = getattr(getattr(batch, "inputs", None), "shape", ())
    if not isinstance(problem, SampleWeighting) or not math.prod(shape or (0,)):
        yield 1.0, batch
        return
    length = max(FEWEST, NUMBERS // math.prod(shape[1:]))
    for part in chunks(batch, min(length, pass_length(problem, batch))):
        yield len(part) / len(batch), part


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
