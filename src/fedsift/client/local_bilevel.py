"""One local step of all three variables: what a minibatch says of y, v and x.

∇_y g_m,      ∇²_yy g_m v + δ v − ∇_y F,      ∇²_xy g_m v
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedsift.client.inputs import batch_generator
from fedsift.client.passes import Cross, joint_pass
from fedsift.client.state import Client, ClientState
from fedsift.hypergradient import CurvatureSettings
from fedsift.messages import Request
from fedsift.problem.sgd import LocalSteps, loss_and_gradient, minibatches


@dataclass(frozen=True)
class Slopes:
    """The three directions on one minibatch, its loss, and which samples it had."""

    loss: Tensor
    y: Tensor
    v: Tensor
    cross: Cross
    seen: Tensor | None


@dataclass(frozen=True)
class LocalProblem:
    """A client's part of a request: where the slopes are wanted."""

    client: Client
    x: Tensor
    curvature: CurvatureSettings
    outer_gradient: Tensor

    def slopes(self, y: Tensor, v: Tensor, positions: Tensor | None) -> Slopes:
        """Return the directions at (y, v) on a minibatch."""
        batch = self.client.batch
        part = batch if positions is None else batch.take(positions)
        leaf = y.detach().requires_grad_(True)
        loss, gradient = loss_and_gradient(self.client.problem, self.x, leaf, part)
        problem, x = self.client.problem, self.x
        product, cross = joint_pass(problem, x, y.detach(), part, None, v, self.curvature)
        return Slopes(loss, gradient, product - self.outer_gradient, cross, positions)


def local_batches(client: Client, request: Request, y: Tensor) -> Iterator[Any]:
    """Return the minibatches of a round, as `train` draws them."""
    local = request.read(LocalSteps)
    yield from minibatches(len(client.batch), local, batch_generator(client, request), y.device)


def with_agreement(value: Tensor, steps: list[Slopes], state: ClientState) -> Cross:
    """Return a cross product with the mean agreement over steps; a sample not seen keeps its own.

    Before any, labels are believed.
    """
    if steps[0].cross.agreement is None:
        return Cross(value, None)
    total, count = torch.zeros_like(value), torch.zeros_like(value)
    for step in steps:
        assert step.cross.agreement is not None
        total += step.cross.agreement
        count += 1 if step.seen is None else torch.zeros_like(value).index_fill_(0, step.seen, 1)
    past = torch.ones_like(value) if state.agreement is None else state.agreement
    return Cross(value, torch.where(count > 0, total / count.clamp(min=1), past))
