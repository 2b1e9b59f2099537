"""What an action works with: the point (x, y), the samples, the direction v."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fedsift.client.state import Client, ClientState
from fedsift.errors import InputError
from fedsift.hypergradient import CurvatureSettings
from fedsift.hypergradient.estimate import Scaled
from fedsift.hypergradient.non_iterative import SubspaceSeed
from fedsift.messages import Request
from fedsift.problem.protocol import part_of
from fedsift.randomness import generator


def point(
    client: Client, state: ClientState, request: Request
) -> tuple[Tensor, Tensor, ClientState]:
    """Return (x, y) of the request; a y that is not sent is the last one sent this round."""
    y = request.array("y") if "y" in request.arrays else state.y
    x = state.x if state.x is not None else request.array("x")
    if y is None:
        raise InputError(
            f"client {client.id} got the request '{request.action}' before a model; send y first"
        )
    return x, y, replace(state, y=y)


def batch_generator(client: Client, request: Request) -> torch.Generator:
    """Return what a client draws its batches of a round from."""
    return generator(client.seed, request.round, client.id, "batches")


def curvature_batch(client: Client, request: Request) -> tuple[Any, Any | None]:
    """Split a client's samples into the drawn curvature batch and the rest."""
    size, n = request.read(CurvatureSettings).batch_size, len(client.batch)
    if not 0 < size < n:
        return client.batch, None
    order = curvature_order(client, request)
    return part_of(client.batch, order[:size]), part_of(client.batch, order[size:])


def curvature_order(client: Client, request: Request) -> Tensor:
    """Return the client's samples in the order in which a round draws them for products."""
    source = generator(client.seed, request.round, client.id, "curvature")
    return torch.randperm(len(client.batch), generator=source)


def direction(request: Request, length: int) -> Tensor:
    """Return v, at the length that is asked for, or make it from ω: v = S_1ᵀ ω."""
    if "omega" not in request.arrays:
        v = request.array("v")
        return request.read(Scaled).scale * v if "v_scale" in request.scalars else v
    embedding = request.read(SubspaceSeed).embedding(length)
    return embedding.transpose_apply(request.array("omega"))
