"""One pass over the samples of a whole cohort, instead of one per client.

    S_G = Σ_m (N_m / Σ N) S(∇²_yy g_m v) = S(Σ_m (N_m / Σ N) ∇²_yy g_m v)        S linear
    ∇²_xy g_m v                                                                 per sample anyway

Many small passes become few large ones, and S is applied once. Every client's reply then carries
the cohort's mean product, of which the server takes the mean. Top-k is not linear and keeps an
error per client, so its products are not pooled; nor is anything of a problem without an x per
sample, nor clients whose samples are stored. Local steps, each at its own y, are ``stacked``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from fedsift.algorithms.clean_steps import Contrast
from fedsift.client import Shared
from fedsift.client.contrast import contrast_pass, scored
from fedsift.client.follow import Turn, follows
from fedsift.client.inputs import curvature_batch, direction
from fedsift.client.passes import Cross, cross_pass, product_pass
from fedsift.client.training import CONTROL
from fedsift.federation.stacked import Members, followed, posterior, trained
from fedsift.hypergradient import CurvatureSettings
from fedsift.hypergradient.products import Compression
from fedsift.hypergradient.residual import Witness
from fedsift.messages import ClientId, Request
from fedsift.problem import SampleWeighting
from fedsift.problem.protocol import is_stored, part_of
from fedsift.problem.sgd import LocalSteps
from fedsift.problem.tangents import along_difference

CONTRASTING = ("first-order", "clean-step")  # actions that compare two models
ALONG = ("product", "outer")  # actions that follow a direction v


def pooled(members: Members, request: Request) -> dict[ClientId, Shared]:
    """Return what the cohort's clients need not compute for themselves; empty if nothing."""
    if any(is_stored(client.batch) for client, _ in members) or CONTROL in request.arrays:
        return {}  # a pool has all its samples in memory, and takes plain steps
    if follows(members, request):
        return _followed(members, request)
    if request.action == "train-posterior":
        return posterior(members, request)
    shared = _along(members, request)
    for m, result in trained(members, request).items():
        shared[m] = replace(shared.get(m, Shared()), trained=result)
    if request.action == "first-order":
        for m, result in trained(members, request, "base").items():
            shared[m] = replace(shared.get(m, Shared()), base=result)
    return shared


def _along(members: Members, request: Request) -> dict[ClientId, Shared]:
    """Return what follows a direction v, or leads from one model to another."""
    if request.action in CONTRASTING and "base" in request.arrays and _can_be_pooled(members):
        contrasts = _contrasts(members, request)
        return {m: Shared(cross=cross) for m, cross in contrasts.items()}
    y = _common_model(members, request)
    if len(members) < 2 or y is None or not _can_be_pooled(members):
        return {}
    if request.action == "outer":
        crosses = _crosses(members, request, y)
        return {m: Shared(cross=cross) for m, cross in crosses.items()}
    feedback = request.read(Compression).feedback
    if not feedback.poolable:
        return {}
    problem, v = members[0][0].problem, direction(request, len(y))
    x, drawn = _pool(members, [curvature_batch(client, request)[0] for client, _ in members])
    product = product_pass(problem, x, y, drawn, v, request.read(CurvatureSettings))
    return dict.fromkeys((client.id for client, _ in members), _compressed_once(product, request))


def _compressed_once(product: Tensor, request: Request) -> Shared:
    """Return the cohort's mean product, compressed: S is linear."""
    payload, _ = request.read(Compression).feedback.client(product, 1.0, None)
    seen = request.read(Witness).seen(product, request.array("v"))
    return Shared(product=product, payload=payload, residual=seen)


def _followed(members: Members, request: Request) -> dict[ClientId, Shared]:
    """Return the local steps of clients that are stacked, with what follows v beside them."""
    local, curvature = request.read(LocalSteps), request.read(CurvatureSettings)
    small = all(len(client.batch) <= local.batch_size for client, _ in members)
    whole = curvature.batch_size > 0 or local.batch_size <= 0 or small
    if not whole or len(members) < 2:
        return {}  # more is wanted for a product than the first local batch has
    turns = {client.id: Turn.of(client, request) for client, _ in members}
    shared = followed(members, request, turns)
    stacked = [(client, state) for client, state in members if client.id in shared]
    for m, cross in _left(stacked, request, turns).items():
        shared[m] = replace(shared[m], cross=_known(shared[m].cross).with_more(cross))
    if not stacked:
        return shared
    total = sum(len(client.batch) for client, _ in stacked)
    rows = torch.stack([_known(shared[client.id].product) for client, _ in stacked])
    mean = rows.new_tensor([len(client.batch) / total for client, _ in stacked]) @ rows
    if request.read(Compression).feedback.poolable:
        once = _compressed_once(mean, request)
        return {m: replace(once, trained=own.trained, cross=own.cross) for m, own in shared.items()}
    # Every client compresses its own product; the witness is linear.
    seen = request.read(Witness).seen(mean, request.array("v"))
    return {m: replace(own, residual=seen) for m, own in shared.items()}


def _left(
    members: Members, request: Request, turns: Mapping[ClientId, Turn]
) -> dict[ClientId, Cross]:
    """Score, in one pass, the samples of a turn that no local batch of their client has."""
    lefts = {m: turn.left for m, turn in turns.items() if turn.left is not None}
    owners = [(client, state) for client, state in members if client.id in lefts]
    if not owners:
        return {}
    y = request.array("y")
    x, batch = _pool(owners, [part_of(client.batch, lefts[client.id]) for client, _ in owners])
    v, total = direction(request, len(y)), sum(len(client.batch) for client, _ in owners)
    cross = cross_pass(owners[0][0].problem, x, y, batch, v, total, along_difference)
    found = _split(owners, cross)
    return {m: replace(own, at=lefts[m].to(y.device)) for m, own in found.items()}


Thing = TypeVar("Thing")


def _known(value: Thing | None) -> Thing:
    assert value is not None
    return value


def _common_model(members: Members, request: Request) -> Tensor | None:
    """Return the y that all members are asked about, if they follow a v at one."""
    if request.action not in ALONG:
        return None
    if isinstance(y := request.arrays.get("y"), Tensor):
        return y
    y = members[0][1].y
    return y if all(state.y is y for _, state in members) else None


def _can_be_pooled(members: Members) -> bool:
    """Return whether the clients share one poolable problem and own their x."""
    problem = members[0][0].problem
    alike = all(client.problem is problem and state.x is not None for client, state in members)
    return alike and isinstance(problem, SampleWeighting)


def _crosses(members: Members, request: Request, y: Tensor) -> dict[ClientId, Cross]:
    x, batch = _pool(members, [client.batch for client, _ in members])
    v = direction(request, len(y))
    problem = members[0][0].problem
    return _split(members, cross_pass(problem, x, y, batch, v, len(batch)))


def _contrasts(members: Members, request: Request) -> dict[ClientId, Cross]:
    x, batch = _pool(members, [scored(client, request) for client, _ in members])
    models = request.array("y"), request.array("base")
    penalty, problem = request.read(Contrast).penalty, members[0][0].problem
    return _split(members, contrast_pass(problem, x, *models, batch, penalty))


def _pool(members: Members, batches: Sequence[Any]) -> tuple[Tensor, Any]:
    problem = members[0][0].problem
    assert isinstance(problem, SampleWeighting)
    total = sum(len(client.batch) for client, _ in members)
    parts = []
    for (client, state), batch in zip(members, batches, strict=True):
        assert state.x is not None
        parts.append((state.x, batch, len(client.batch) / total))
    return problem.pool(parts)


def _split(members: Members, cross: Cross) -> dict[ClientId, Cross]:
    """Give every client its part: scores divided by its own number of samples."""
    sizes = [len(state.x) for _, state in members if state.x is not None]
    total = sum(len(client.batch) for client, _ in members)
    values = torch.split(cross.value, sizes)
    agreements: Sequence[Tensor | None] = [None] * len(members)
    if cross.agreement is not None:
        agreements = torch.split(cross.agreement, sizes)
    return {
        client.id: Cross(value * (total / len(client.batch)), agreement)
        for (client, _), value, agreement in zip(members, values, agreements, strict=True)
    }
