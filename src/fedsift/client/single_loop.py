"""Single loop (ours): local steps, product and outer step, all at the same (x_k, y_k, v_k)."""

from __future__ import annotations

from fedsift.client.inputs import curvature_batch, direction, point
from fedsift.client.outer_step import moved
from fedsift.client.passes import joint_pass
from fedsift.client.products import compressed
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.client.training import train
from fedsift.hypergradient import CurvatureSettings
from fedsift.messages import Request


def step(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:
    """Reply as `train` and `product` do; step the client's own x."""
    x, y, state = point(client, state, request)
    trained = train(client, state, request, shared)
    product, cross = shared.product, shared.cross
    if product is None or cross is None:
        drawn, rest = curvature_batch(client, request)
        v, curvature = direction(request, len(y)), request.read(CurvatureSettings)
        product, cross = joint_pass(client.problem, x, y, drawn, rest, v, curvature)
    sent = compressed(product, trained.state, request, shared)
    stepped = moved(client, x, cross, sent.state, request)
    return Outcome(
        {**trained.arrays, **sent.arrays, **stepped.arrays},
        {**trained.scalars, **sent.scalars, **stepped.scalars},
        stepped.state,
    )
