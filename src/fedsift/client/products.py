"""Products with ∇²_yy g_m: compressed (Algorithm 2) or between two embeddings (Algorithm 3)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from fedsift.client.inputs import curvature_batch, direction, point
from fedsift.client.passes import galerkin_pass, product_pass, sketch_pass
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.hypergradient import CurvatureSettings
from fedsift.hypergradient.non_iterative import SketchedSystem
from fedsift.hypergradient.products import Compression
from fedsift.hypergradient.residual import Witness
from fedsift.messages import Request, Scalar


def product(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:
    """Algorithm 2, line 5: reply with a compressed Hessian product."""
    x, y, state = point(client, state, request)
    value = shared.product
    if value is None:
        drawn, _ = curvature_batch(client, request)
        curvature = request.read(CurvatureSettings)
        value = product_pass(client.problem, x, y, drawn, direction(request, len(y)), curvature)
    return compressed(value, state, request, shared)


def measure(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:  # noqa: ARG001
    """Reply with the witness's sketch of ∇²_yy g_m v alone."""
    x, y, state = point(client, state, request)
    drawn, _ = curvature_batch(client, request)
    curvature = request.read(CurvatureSettings)
    v = direction(request, len(y))
    value = product_pass(client.problem, x, y, drawn, v, curvature)
    return Outcome({"residual": request.read(Witness).seen(value, v)}, {}, state)


def compressed(value: Tensor, state: ClientState, request: Request, shared: Shared) -> Outcome:
    """Reply with S(∇²_yy g_m v), and keep what the feedback keeps at the client, by its epoch.

    The witness sees the product itself, before anything is left out of it.
    """
    payload, memory, left = shared.payload, None, 0.0
    if payload is None:
        compression = request.read(Compression)
        feedback, step = compression.feedback, compression.step
        valid = state.epoch is not None and int(state.epoch) == compression.epoch
        wanted = value - request.array("right") if feedback.needs_right else value
        kept = state.error if valid else None
        payload, memory = feedback.client(wanted, step, kept, fresh=compression.fresh)
        left = feedback.left(wanted, step, memory)
        # A feedback that keeps nothing here leaves what another one keeps: an uncompressed product
        # that measures the residual must not cost Top-k its memory.
        if memory is not None:
            state = replace(state, error=memory, epoch=torch.tensor(compression.epoch))
    v, seen = request.array("v"), shared.residual
    seen = request.read(Witness).seen(value, v) if seen is None else seen
    scalars: dict[str, Scalar] = {"curvature": float(v @ value), "error": left}
    return Outcome({"product": payload, "residual": seen}, scalars, state)


def sketch(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:  # noqa: ARG001
    """Algorithm 3, line 4: reply with S_2 ∇²_yy g_m S_1ᵀ, or with S_1 on both sides."""
    x, y, state = point(client, state, request)
    curvature, sketched = request.read(CurvatureSettings), request.read(SketchedSystem)
    (drawn, _), S1 = curvature_batch(client, request), sketched.embedding(len(y))
    if sketched.system == "galerkin":
        system = galerkin_pass(client.problem, x, y, drawn, S1, curvature)
    else:
        system = sketch_pass(client.problem, x, y, drawn, S1, sketched.left(len(y)), curvature)
    return Outcome({"sketch": system}, {}, state)
