"""The client's half of the outer step: x moves at its owner.

    x_k+1 = P(x_k − η ∇h + pull),      ∇h = −(N_m / N) ∇²_xy g_m v

F does not depend on a private x, so ∇h has no other part. The pull is ours
(``algorithms.additions.self_paced``). The mean square of ∇h goes back to the server, so that the
next steps are scaled alike at all clients. A shared x is stepped by the server, which gets
∇²_xy g_m v.
"""

from __future__ import annotations

from dataclasses import replace

import torch
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
    at = slice(None) if cross.at is None else cross.at
    hypergradient, own = -share * cross.value[at], x[at]
    moved_x = own - move.change(hypergradient)
    agreement = _agreement(state.agreement, cross)
    if agreement is not None:
        moved_x = moved_x + pull(own, agreement[at], move.pace)
    moved_x = client.problem.project(moved_x)
    new = moved_x if cross.at is None else x.index_put((cross.at,), moved_x)
    average = averaged(state.average, new, move.mean)
    square: dict[str, Scalar] = {"outer_square": float(hypergradient.square().mean())}
    return Outcome({}, square, replace(state, x=new, average=average, agreement=agreement))


def _agreement(past: Tensor | None, cross: Cross) -> Tensor | None:
    """Return the mean agreement over rounds; a sample that was not scored keeps its own.

    Before it is scored at all, its label is believed.
    """
    if cross.at is None or cross.agreement is None:
        return averaged(past, cross.agreement)
    seen = cross.agreement[cross.at]
    if past is None:
        return torch.ones_like(cross.agreement).index_put_((cross.at,), seen)
    return past.index_put((cross.at,), _known(averaged(past[cross.at], seen)))


def _known(value: Tensor | None) -> Tensor:
    assert value is not None
    return value


def averaged(past: Tensor | None, new: Tensor | None, weight: float = AVERAGING) -> Tensor | None:
    """Return the exponential mean over rounds; ``weight`` is that of the past."""
    if past is None or new is None:
        return new
    return weight * past + (1 - weight) * new
