"""Plain SGD on the inner loss: of one client, or of several at once.

    y_t+1 = y_t − γ ∇_y g(x, y_t; batch_t),     t = 1..T

The server takes such steps on its clean samples, a client on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedsift.problem.protocol import (
    Composite,
    InnerLoss,
    KnownActivations,
    Stackable,
    chunks,
    is_stored,
    pass_length,
)

MANY = 2**17  # samples, from which on a shuffled order is not drawn whole


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


@dataclass(frozen=True, eq=False)
class Seen:
    """A forward pass of a local step, before its gradient is taken: others may use it too.

    Of one client, or of several at once: all tensors then have one more axis in front.
    ``outputs`` have a graph from ``y``; ``run`` gives those of the same samples at any y.
    """

    step: int
    y: Tensor
    outputs: Tensor
    run: Callable[[Tensor], Tensor]
    weights: Tensor
    labels: Tensor
    positions: Tensor


Watch = Callable[[Seen], None]


def local_sgd(
    problem: InnerLoss,
    x: Tensor,
    y: Tensor,
    batch: Any,
    local: LocalSteps,
    generator: torch.Generator,
    *,
    first: Tensor | None = None,
    watch: Watch | None = None,
) -> Trained:
    """Take T steps from y on the client's own batches, those of the samples ``first`` first."""
    y = y.clone()
    losses = []
    drawn = minibatches(len(batch), local, generator, y.device, first)
    for step, positions in enumerate(drawn):
        y.requires_grad_(True)
        part = batch if positions is None else batch.take(positions)
        loss, gradient = loss_and_gradient(problem, x, y, part, watch, step)
        y = y.detach().sub_(gradient, alpha=local.lr)
        losses.append(loss)
    return Trained(y, torch.stack(losses).mean())


def stacked_sgd(
    problem: Stackable,
    clients: Sequence[tuple[Tensor, Any, torch.Generator]],
    y: Tensor,
    local: LocalSteps,
    *,
    firsts: Sequence[Tensor | None] = (),
    watch: Watch | None = None,
) -> list[Trained] | None:
    """Do ``local_sgd`` for several clients (x_m, batch_m, generator) at once.

    Their batches have equal lengths; the result differs in rounding only. None where the problem
    has no stacked form.
    """
    wanted = firsts or [None] * len(clients)
    drawn = [
        minibatches(len(batch), local, source, y.device, first)
        for (_, batch, source), first in zip(clients, wanted, strict=True)
    ]
    ys, losses = y.expand(len(clients), -1).clone(), []
    stacked = None
    for t in range(local.steps):
        if stacked is None or any(positions[t] is not None for positions in drawn):
            rows = [positions[t] for positions in drawn]
            parts = [
                (x, batch if at is None else batch.take(at))
                for (x, batch, _), at in zip(clients, rows, strict=True)
            ]
            stacked = problem.stack(parts)
        if stacked is None:
            return None
        ys.requires_grad_(True)
        outputs = stacked.run(ys)
        if watch is not None:
            known = stacked.weights, stacked.labels, stacked.positions
            watch(Seen(t, ys, outputs, stacked.run, *known))
        loss = stacked.losses(ys, outputs)
        (gradient,) = torch.autograd.grad(loss.sum(), ys)
        ys = ys.detach().sub_(gradient, alpha=local.lr)
        losses.append(loss.detach())
    mean = torch.stack(losses).mean(dim=0)
    return [Trained(*pair) for pair in zip(ys.unbind(), mean.unbind(), strict=True)]


def loss_and_gradient(
    problem: InnerLoss, x: Tensor, y: Tensor, batch: Any, watch: Watch | None = None, step: int = 0
) -> tuple[Tensor, Tensor]:
    """Return g and ∇_y g of a batch, as the mean over chunks that stay in the cache."""
    # Any other loss need not be a mean over samples.
    cut = isinstance(problem, KnownActivations) or is_stored(batch)
    total, gradient = y.new_zeros(()), None
    for part in chunks(batch, pass_length(problem, batch)) if cut else (batch,):
        if watch is not None and isinstance(problem, Composite):
            loss = _watched_loss(problem, x, y, part, watch, step)
        else:
            loss = problem.inner_loss(x, y, part)
        own = torch.autograd.grad(loss, y)[0]
        if not cut or len(part) == len(batch):
            return loss.detach(), own
        share = len(part) / len(batch)
        gradient = own.mul_(share) if gradient is None else gradient.add_(own, alpha=share)
        total.add_(loss.detach(), alpha=share)
    return total, torch.zeros_like(y) if gradient is None else gradient


def _watched_loss(
    problem: Composite, x: Tensor, y: Tensor, part: Any, watch: Watch, step: int
) -> Tensor:
    """Return g, its outputs shown before."""
    outputs, at = problem.outputs(y, part), part.positions

    def run(y_: Tensor) -> Tensor:
        return problem.outputs(y_, part)

    watch(Seen(step, y, outputs, run, x[at], part.labels, at))
    return problem.output_loss(x, outputs, part) + 0.5 * problem.l2 * (y @ y)


def minibatches(
    n: int,
    local: LocalSteps,
    generator: torch.Generator,
    device: torch.device,
    first: Tensor | None = None,
) -> list[Tensor] | list[None]:
    """Return T batches: passes over a shuffled order, reshuffled when it runs out.

    Drawn on the CPU, so that every device draws the same, and moved once per pass. The first pass
    begins with the samples ``first``.
    """
    if local.batch_size <= 0 or local.batch_size >= n:
        return [None] * local.steps
    per_pass = n // local.batch_size
    batches: list[Tensor] = []
    while len(batches) < local.steps:
        wanted = min(per_pass, local.steps - len(batches)) * local.batch_size
        begun = first is not None and not batches
        order = shuffled(n, wanted + (len(first) if first is not None and begun else 0), generator)
        if first is not None and begun:
            others = torch.ones(n, dtype=torch.bool).index_fill_(0, first, False)
            order = torch.cat([first, order[others[order]]])
        batches += torch.split(order[:wanted].to(device), local.batch_size)
    return batches


def shuffled(n: int, count: int, generator: torch.Generator) -> Tensor:
    """Return the first ``count`` of 0 .. n - 1 in random order.

    Few of many are drawn one by one, and those that come again left out, so that a step does not
    cost more the more samples there are.
    """
    if n <= MANY or 4 * count > n:
        return torch.randperm(n, generator=generator)[:count]
    drawn = torch.zeros(0, dtype=torch.int64)
    while len(drawn) < count:
        more = torch.randint(n, (count + count // 4 + 16,), generator=generator)
        drawn = torch.cat((drawn, more))
        _, at = np.unique(drawn.numpy(), return_index=True)
        drawn = drawn[torch.from_numpy(np.sort(at))]
    return drawn[:count]
