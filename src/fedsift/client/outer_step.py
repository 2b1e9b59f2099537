"""The client's half of the outer step: x moves at its owner.

    x_k+1 = P(x_k − η ∇h + pull),      ∇h = −(N_m / N) ∇²_xy g_m v

F does not depend on a private x, so ∇h has no other part. The pull is ours
(``algorithms.additions.self_paced``). The mean square of ∇h goes back to the server, so that the
next steps are scaled alike at all clients. A shared x is stepped by the server, which gets
∇²_xy g_m v.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from fedsift.algorithms.additions.constants import AVERAGING
from fedsift.algorithms.additions.self_paced import pull
from fedsift.algorithms.outer_step import Move, TotalSamples
from fedsift.client.inputs import direction, point
from fedsift.client.passes import Cross, cross_pass
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.messages import Request, Scalar


def outer(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:
    """Make ∇²_xy g_m v; step the client's own x along it, or reply with it."""
    x, y, state = point(client, state, request)
    cross = shared.cross or cross_pass(
        client.problem, x, y, client.batch, direction(request, len(y)), len(client.batch)
    )
    return moved(client, x, cross, state, request)


def moved(client: Client, x: Tensor, cross: Cross, state: ClientState, request: Request) -> Outcome:
    """Step the client's own x along the hypergradient."""
    if state.x is None:
        return Outcome({"cross": cross.value}, {}, state)
    move = request.read(Move)
    share = len(client.batch) / request.read(TotalSamples).total_samples
    hypergradient = -share * cross.value
    new = x - move.change(hypergradient)
    agreement = averaged(state.agreement, cross.agreement)
    if agreement is not None:
        new = new + pull(x, agreement, move.pace)
    new = client.problem.project(new)
    average = averaged(state.average, new, move.mean)
    square: dict[str, Scalar] = {"outer_square": float(hypergradient.square().mean())}
    return Outcome({}, square, replace(state, x=new, average=average, agreement=agreement))


def averaged(past: Tensor | None, new: Tensor | None, weight: float = AVERAGING) -> Tensor | None:
    """Return the exponential mean over rounds; ``weight`` is that of the past."""
    if past is None or new is None:
        return new
    return weight * past + (1 - weight) * new
