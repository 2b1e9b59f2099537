"""Products with ∇²_yy g_m: compressed (Algorithm 2) or between two embeddings (Algorithm 3)."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from fedsift.client.inputs import curvature_batch, direction, point
from fedsift.client.passes import galerkin_pass, product_pass, sketch_pass
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.hypergradient import CurvatureSettings
from fedsift.hypergradient.non_iterative import SketchedSystem
from fedsift.hypergradient.products import Compression
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


def compressed(value: Tensor, state: ClientState, request: Request, shared: Shared) -> Outcome:
    """Reply with S(∇²_yy g_m v), and keep the error where the feedback keeps it at the client."""
    error: Tensor | None = None
    payload = shared.payload
    if payload is None:
        compression = request.read(Compression)
        error = None if compression.fresh else state.error
        payload, error = compression.feedback.client(value, compression.step, error)
    scalars: dict[str, Scalar] = {
        "curvature": float(request.array("v") @ value),
        "error": 0.0 if error is None else float(error.norm()),
    }
    # A feedback that keeps nothing here leaves what another one keeps: an uncompressed product
    # that measures the residual must not cost Top-k its memory.
    state = state if error is None else replace(state, error=error)
    return Outcome({"product": payload}, scalars, state)


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
