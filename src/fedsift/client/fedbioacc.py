"""FedBiOAcc, the site's half: local steps along momenta that every minibatch corrects."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from fedsift.algorithms.fedbioacc import Storm
from fedsift.algorithms.simfbo import SolverStep
from fedsift.client.inputs import point
from fedsift.client.local_bilevel import LocalProblem, local_batches, with_agreement
from fedsift.client.outer_step import moved
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.hypergradient import CurvatureSettings
from fedsift.messages import Request
from fedsift.problem.sgd import LocalSteps


def fedbioacc(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:  # noqa: ARG001
    """Reply with the changes of y and v and with their momenta; step the client's own x."""
    x, y_start, state = point(client, state, request)
    v_start, gradient = request.array("v"), request.array("gradient")
    lr, step = request.read(LocalSteps).lr, request.read(SolverStep).step
    keep = 1 - request.read(Storm).storm
    local = LocalProblem(client, x, request.read(CurvatureSettings), gradient)
    y, v, steps = y_start, v_start, []
    along_y, along_v = _sent(request, "y_momentum"), _sent(request, "v_momentum")
    along_x = _sent(request, "x_momentum") if state.x is None else state.momentum
    along_x = None if along_v is None else along_x  # all three start together
    for positions in local_batches(client, request, y):
        old = local.slopes(y, v, positions)
        along_y = old.y if along_y is None else along_y
        along_v = old.v if along_v is None else along_v
        along_x = old.cross.value if along_x is None else along_x
        y, v = y - lr * along_y, v - step * along_v
        new = local.slopes(y, v, positions)
        along_y = new.y + keep * (along_y - old.y)
        along_v = new.v + keep * (along_v - old.v)
        along_x = new.cross.value + keep * (along_x - old.cross.value)
        steps.append(new)
    assert along_x is not None
    assert along_y is not None
    assert along_v is not None
    stepped = moved(client, x, with_agreement(along_x, steps, state), state, request)
    loss = torch.stack([slopes.loss for slopes in steps]).mean()
    arrays = {"update": y - y_start, "v_update": v - v_start}
    arrays |= {"y_momentum": along_y, "v_momentum": along_v}
    kept = stepped.state if state.x is None else replace(stepped.state, momentum=along_x)
    return Outcome({**arrays, **stepped.arrays}, {"loss": float(loss)}, kept)


def _sent(request: Request, name: str) -> Tensor | None:
    return request.array(name) if name in request.arrays else None
