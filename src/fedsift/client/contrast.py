"""How far two models differ on x: the first-order form of ∇²_xy g v.

    −λ (∂_x g(x, z) − ∂_x g(x, y))  ≈  ∇²_xy g v,      v = λ (y − z)

For sample weights ∂ g / ∂ x_j is the loss of sample j over N_m, or what bootstrapping makes of it:
the problem's own derivative in x. The models are only run, not differentiated.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from fedsift.algorithms.clean_steps import Contrast
from fedsift.client.passes import Cross
from fedsift.client.state import Client
from fedsift.messages import Request
from fedsift.problem import Composite, Problem, SampleWeighting, chunks
from fedsift.problem.protocol import is_stored, part_of
from fedsift.problem.sample_losses import CHUNK
from fedsift.randomness import generator

NUMBERS, SMALLEST, LARGEST = 100_000, 128, 1024  # of inputs, and of samples, in one chunk


def scored(client: Client, request: Request) -> Any:
    """Return the samples whose x moves in this round: all, or as many as the request says."""
    size, n = request.read(Contrast).scored, len(client.batch)
    if not 0 < size < n:
        return client.batch
    source = generator(client.seed, request.round, client.id, "scored")
    return part_of(client.batch, torch.randperm(n, generator=source)[:size])


def contrast_pass(
    problem: Problem, x: Tensor, z: Tensor, y: Tensor, batch: Any, penalty: float
) -> Cross:
    """Return −λ (∂_x g(x, z) − ∂_x g(x, y)), and how far z agrees with the labels."""
    value = torch.zeros_like(x)
    agreement = torch.zeros_like(x) if isinstance(problem, SampleWeighting) else None
    for part in chunks(batch, _length(batch)):
        at_z, outputs = _slope(problem, x, z, part)
        at_y, _ = _slope(problem, x, y, part)
        value += (-penalty * len(part) / len(batch)) * (at_z - at_y)
        if agreement is not None and isinstance(problem, SampleWeighting):
            agreement += problem.agreement(x, outputs, part)
    return Cross(value, agreement)


def _length(batch: Any) -> int:
    """Return how many samples to run at once: no graph is kept, so more than in training."""
    shape: tuple[int, ...] = getattr(getattr(batch, "inputs", None), "shape", ())
    length = NUMBERS // max(math.prod(shape[1:]), 1)
    return min(max(length, SMALLEST), CHUNK if is_stored(batch) else LARGEST)


def _slope(problem: Problem, x: Tensor, y: Tensor, part: Any) -> tuple[Tensor, Tensor]:
    """Return ∂_x g(x, y) on these samples, and the outputs where there are any."""
    leaf, outputs = x.detach().requires_grad_(True), y
    if isinstance(problem, Composite):
        with torch.no_grad():
            outputs = problem.outputs(y, part)
        loss = problem.output_loss(leaf, outputs, part)
    else:
        loss = problem.inner_loss(leaf, y, part)
    (slope,) = torch.autograd.grad(loss, leaf, allow_unused=True, materialize_grads=True)
    return slope, outputs
