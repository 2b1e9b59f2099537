"""First order and clean step, the site's half: local steps, and x by how two models differ.

All of it is done at (x_k, y_k, z_k) as they are sent, so a round is one exchange. A request
without a second model has nothing to compare yet: x stays.
"""

from __future__ import annotations

from dataclasses import replace

from fedsift.algorithms.clean_steps import Penalty
from fedsift.client.contrast import contrast_pass
from fedsift.client.inputs import point
from fedsift.client.outer_step import moved
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.client.training import train
from fedsift.messages import Request


def clean_step(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:
    """Reply as `train` does; step the client's own x."""
    x, y, state = point(client, state, request)
    trained = train(client, state, request, shared)
    if "base" not in request.arrays:
        return trained
    cross = shared.cross or contrast_pass(
        client.problem, x, y, request.array("base"), client.batch, request.read(Penalty).penalty
    )
    stepped = moved(client, x, cross, trained.state, request)
    return Outcome({**trained.arrays, **stepped.arrays}, trained.scalars, stepped.state)


def first_order(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:
    """Reply as `clean_step` does, and with the change of the second model on the same batches."""
    stepped = clean_step(client, state, request, shared)
    if "base" not in request.arrays:
        return stepped
    other = replace(request, arrays={**request.arrays, "y": request.array("base")})
    base = train(client, state, other, Shared(trained=shared.base))
    update = {"base_update": base.arrays["update"]}
    return stepped._replace(arrays={**stepped.arrays, **update}, scalars=base.scalars)
