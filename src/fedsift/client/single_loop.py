"""Single loop (ours): local steps, product and outer step, in one pass beside each other.

By differences (``follow``) the forward passes of the local steps serve product and scores as well;
else everything is done at the same (x_k, y_k, v_k) by forward mode (``passes``).
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from fedsift.algorithms.outer_gradients import OuterToo
from fedsift.algorithms.outer_step import Scoring
from fedsift.client.follow import Follower, Turn, follows, in_turn
from fedsift.client.inputs import batch_generator, curvature_order, direction, point
from fedsift.client.outer_gradient import outer_parts
from fedsift.client.outer_step import moved
from fedsift.client.passes import Cross, cross_pass, joint_pass, product_pass
from fedsift.client.products import compressed
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.client.training import train
from fedsift.compress import Payload
from fedsift.hypergradient import CurvatureSettings
from fedsift.messages import Request, Scalar
from fedsift.problem import SampleWeighting
from fedsift.problem.protocol import part_of
from fedsift.problem.sgd import LocalSteps, local_sgd
from fedsift.problem.tangents import along_difference


def step(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:
    """Reply as `train` and `product` do, and with f_m where asked to; step the client's own x."""
    x, y, state = point(client, state, request)
    if shared.cross is None and follows([(client, state)], request):
        shared = followed(client, x, y, request)
    trained = train(client, state, request, shared)
    product, cross = shared.product, shared.cross
    if product is None or cross is None:
        product, cross = _at_one_point(client, state, x, y, request)
    sent = compressed(product, trained.state, request, shared)
    stepped = moved(client, x, cross, sent.state, request)
    arrays: dict[str, Payload] = {}
    scalars: dict[str, Scalar] = {}
    if request.read(OuterToo).outer_too:
        arrays, scalars = outer_parts(client, state, x, y)
    along = stepped.arrays
    if "outer_x" in arrays:  # the server needs their difference alone
        along = {"hypergradient": _dense(arrays.pop("outer_x")) - _dense(along["cross"])}
    return Outcome(
        {**arrays, **trained.arrays, **sent.arrays, **along},
        {**scalars, **trained.scalars, **sent.scalars, **stepped.scalars},
        stepped.state,
    )


def _dense(payload: Payload) -> Tensor:
    assert isinstance(payload, Tensor)
    return payload


def followed(client: Client, x: Tensor, y: Tensor, request: Request) -> Shared:
    """Take the local steps; product and scores come from the same forward passes."""
    problem, batch, turn = client.problem, client.batch, Turn.of(client, request)
    assert isinstance(problem, SampleWeighting)
    watch = Follower.of(problem, request, len(y), turn)
    local, source = request.read(LocalSteps), batch_generator(client, request)
    trained = local_sgd(problem, x, y, batch, local, source, first=turn.first, watch=watch)
    cross = watch.cross(x, turn.along)
    if turn.left is not None:
        cross = cross.with_more(left_cross(client, x, y, turn.left, watch.v))
    product = watch.products(request.read(CurvatureSettings).damping)
    more = _more_curvature(client, request, turn)
    if more is not None:
        curvature = request.read(CurvatureSettings)
        other = product_pass(problem, x, y, part_of(batch, more), watch.v, curvature)
        total = watch.bent + len(more)
        product = (watch.bent * product + len(more) * other) / total
    return Shared(trained=trained, product=product, cross=cross)


def left_cross(client: Client, x: Tensor, y: Tensor, left: Tensor, v: Tensor) -> Cross:
    """Score the samples of a turn that no local batch has, at y."""
    part = part_of(client.batch, left)
    cross = cross_pass(client.problem, x, y, part, v, len(client.batch), along_difference)
    return replace(cross, at=left.to(x.device))


def _more_curvature(client: Client, request: Request, turn: Turn) -> Tensor | None:
    """Return the samples that the first local batch has not, where all are wanted."""
    if turn.first is None or request.read(CurvatureSettings).batch_size:
        return None
    first = turn.first[: request.read(LocalSteps).batch_size]
    return torch.ones(len(client.batch)).index_fill_(0, first, 0).nonzero().squeeze(1)


def _at_one_point(
    client: Client, state: ClientState, x: Tensor, y: Tensor, request: Request
) -> tuple[Tensor, Cross]:
    """Return product and cross product at y_k, by forward mode."""
    v, curvature, n = direction(request, len(y)), request.read(CurvatureSettings), len(client.batch)
    scored = request.read(Scoring).scored
    order = curvature_order(client, request)
    drawn = order[: curvature.batch_size or n]
    if 0 < scored < n and state.x is not None:
        turn = in_turn(n, scored, client.seed, request.round, client.id)
        rest = turn[torch.isin(turn, drawn, invert=True)]
    else:
        rest = order[len(drawn) :]
    chosen = client.batch if len(drawn) == n else part_of(client.batch, drawn)
    others = part_of(client.batch, rest) if len(rest) else None
    product, cross = joint_pass(client.problem, x, y, chosen, others, v, curvature, n)
    if len(drawn) + len(rest) < n:
        cross = replace(cross, at=torch.cat([drawn, rest]).to(x.device))
    return product, cross
