"""SimFBO, the site's half: T local steps of y and v, and x along the mean cross product."""

from __future__ import annotations

import torch

from fedsift.algorithms.simfbo import SolverStep
from fedsift.client.inputs import point
from fedsift.client.local_bilevel import LocalProblem, local_batches, with_agreement
from fedsift.client.outer_step import moved
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.hypergradient import CurvatureSettings
from fedsift.messages import Request
from fedsift.problem.sgd import LocalSteps


def simfbo(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:  # noqa: ARG001
    """Reply with the changes of y and v; step the client's own x, or reply with its direction."""
    x, y_start, state = point(client, state, request)
    v_start, gradient = request.array("v"), request.array("gradient")
    lr, step = request.read(LocalSteps).lr, request.read(SolverStep).step
    local = LocalProblem(client, x, request.read(CurvatureSettings), gradient)
    y, v, steps = y_start, v_start, []
    for positions in local_batches(client, request, y):
        slopes = local.slopes(y, v, positions)
        y, v = y - lr * slopes.y, v - step * slopes.v
        steps.append(slopes)
    cross = torch.stack([slopes.cross.value for slopes in steps]).mean(dim=0)
    stepped = moved(client, x, with_agreement(cross, steps, state), state, request)
    loss = torch.stack([slopes.loss for slopes in steps]).mean()
    updates = {"update": y - y_start, "v_update": v - v_start}
    return Outcome({**updates, **stepped.arrays}, {"loss": float(loss)}, stepped.state)
