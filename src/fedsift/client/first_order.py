"""First order and clean step, the site's half: local steps, and x by how two models differ.

All of it is done at (x_k, y_k, z_k) as they are sent, so a round is one exchange. A request
without a second model has nothing to compare yet: x stays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from fedsift.algorithms.clean_steps import Contrast
from fedsift.client.contrast import contrast_pass, scored
from fedsift.client.inputs import point
from fedsift.client.outer_step import moved
from fedsift.client.passes import Cross
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.client.training import train
from fedsift.messages import Request


def clean_step(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:
    """Reply as `train` does; step the client's own x."""
    x, y, state = point(client, state, request)
    trained = train(client, state, request, shared)
    if "base" not in request.arrays:
        return trained
    drawn, contrast = scored(client, request), request.read(Contrast)
    cross = shared.cross or contrast_pass(
        client.problem, x, y, request.array("base"), drawn, contrast.penalty
    )
    stepped = moved(client, x, _completed(cross, drawn, state), trained.state, request)
    return Outcome({**trained.arrays, **stepped.arrays}, trained.scalars, stepped.state)


def _completed(cross: Cross, drawn: Any, state: ClientState) -> Cross:
    """Let samples that were not drawn keep their agreement; before any, labels are believed."""
    if cross.agreement is None or len(drawn) == len(cross.agreement):
        return cross
    past = torch.ones_like(cross.agreement) if state.agreement is None else state.agreement
    at = drawn.positions
    return replace(cross, agreement=past.index_put((at,), cross.agreement[at]))


def first_order(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:
    """Reply as `clean_step` does, and with the change of the second model on the same batches."""
    stepped = clean_step(client, state, request, shared)
    if "base" not in request.arrays:
        return stepped
    other = replace(request, arrays={**request.arrays, "y": request.array("base")})
    base = train(client, state, other, Shared(trained=shared.base))
    update = {"base_update": base.arrays["update"]}
    return stepped._replace(arrays={**stepped.arrays, **update}, scalars=base.scalars)
