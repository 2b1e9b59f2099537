"""Plain SGD on the inner loss: of one client, or of several at once.

    y_t+1 = y_t − γ ∇_y g(x, y_t; batch_t),     t = 1..T

The server takes such steps on its clean samples, a client on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedsift.problem.protocol import (
    InnerLoss,
    SampleWeighting,
    chunk_length,
    chunks,
    is_stored,
)


@dataclass(frozen=True)
class LocalSteps:
    """The local steps of a round: SGD on a client's own samples.

    Attributes:
        steps: T, steps per round.
        lr: γ, the step size.
        batch_size: Samples per step; 0: all.
    """

    steps: int = 5
    lr: float = 0.1
    batch_size: int = 64


class Trained(NamedTuple):
    """y^m_T and the mean loss over the T steps, both on the device of y."""

    y: Tensor
    loss: Tensor


def local_sgd(
    problem: InnerLoss,
    x: Tensor,
    y: Tensor,
    batch: Any,
    local: LocalSteps,
    generator: torch.Generator,
) -> Trained:
    """Take T steps from y on the client's own batches."""
    y = y.clone()
    losses = []
    for positions in minibatches(len(batch), local, generator, y.device):
        y.requires_grad_(True)
        loss, gradient = loss_and_gradient(problem, x, y, batch, positions)
        y = y.detach().sub_(gradient, alpha=local.lr)
        losses.append(loss)
    return Trained(y, torch.stack(losses).mean())


def stacked_sgd(
    problem: SampleWeighting,
    clients: Sequence[tuple[Tensor, Any, torch.Generator]],
    y: Tensor,
    local: LocalSteps,
) -> list[Trained] | None:
    """Do ``local_sgd`` for several clients (x_m, batch_m, generator) at once.

    Their batches have equal lengths; the result differs in rounding only. None where the problem
    has no stacked form.
    """
    drawn = [minibatches(len(batch), local, source, y.device) for _, batch, source in clients]
    ys, losses = y.expand(len(clients), -1).clone(), []
    stacked = None
    for t in range(local.steps):
        if stacked is None or drawn[0][t] is not None:
            rows = [positions[t] for positions in drawn]
            parts = [(x, _part(b, at)) for (x, b, _), at in zip(clients, rows, strict=True)]
            stacked = problem.stack(parts)
        if stacked is None:
            return None
        ys.requires_grad_(True)
        loss = stacked(ys)
        (gradient,) = torch.autograd.grad(loss.sum(), ys)
        ys = ys.detach().sub_(gradient, alpha=local.lr)
        losses.append(loss.detach())
    mean = torch.stack(losses).mean(dim=0)
    return [Trained(*pair) for pair in zip(ys.unbind(), mean.unbind(), strict=True)]


def loss_and_gradient(
    problem: InnerLoss, x: Tensor, y: Tensor, batch: Any, positions: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return g and ∇_y g of a minibatch; of a whole stored batch, as the mean over its chunks."""
    if positions is not None or not is_stored(batch):
        loss = problem.inner_loss(x, y, _part(batch, positions))
        return loss.detach(), torch.autograd.grad(loss, y)[0]
    total, gradient = y.new_zeros(()), torch.zeros_like(y)
    for part in chunks(batch, chunk_length(batch)):
        loss, share = problem.inner_loss(x, y, part), len(part) / len(batch)
        gradient.add_(torch.autograd.grad(loss, y)[0], alpha=share)
        total.add_(loss.detach(), alpha=share)
    return total, gradient


def _part(batch: Any, positions: Tensor | None) -> Any:
    return batch if positions is None else batch.take(positions)


def minibatches(
    n: int, local: LocalSteps, generator: torch.Generator, device: torch.device
) -> list[Tensor] | list[None]:
    """Return T batches: passes over a shuffled order, reshuffled when it runs out.

    Drawn on the CPU, so that every device draws the same, and moved once per pass.
    """
    if local.batch_size <= 0 or local.batch_size >= n:
        return [None] * local.steps
    per_pass = n // local.batch_size
    batches: list[Tensor] = []
    while len(batches) < local.steps:
        order = torch.randperm(n, generator=generator)[: per_pass * local.batch_size]
        batches += torch.split(order.to(device), local.batch_size)
    return batches[: local.steps]
