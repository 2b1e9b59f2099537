"""One pass over the samples of a whole cohort, instead of one per client.

    S_G = Σ_m (N_m / Σ N) S(∇²_yy g_m v) = S(Σ_m (N_m / Σ N) ∇²_yy g_m v)        S linear
    ∇²_xy g_m v                                                                 per sample anyway

Many small passes become few large ones, and S is applied once. Every client's reply then carries
the cohort's mean product, of which the server takes the mean. Top-k is not linear and keeps an
error per client, so its products are not pooled; nor is anything of a problem without an x per
sample, nor clients whose samples are stored. Local steps, each at its own y, are ``stacked``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fedsift.algorithms.clean_steps import Contrast
from fedsift.client import Shared
from fedsift.client.contrast import contrast_pass, scored
from fedsift.client.inputs import curvature_batch, direction
from fedsift.client.passes import Cross, cross_pass, joint_pass, product_pass
from fedsift.federation.stacked import Members, trained
from fedsift.hypergradient import CurvatureSettings
from fedsift.hypergradient.products import Compression
from fedsift.hypergradient.residual import Witness
from fedsift.messages import ClientId, Request
from fedsift.problem import SampleWeighting
from fedsift.problem.protocol import is_stored

CONTRASTING = ("first-order", "clean-step")  # actions that compare two models
ALONG = ("product", "outer", "step")  # actions that follow a direction v


def pooled(members: Members, request: Request) -> dict[ClientId, Shared]:
    """Return what the cohort's clients need not compute for themselves; empty if nothing."""
    if any(is_stored(client.batch) for client, _ in members):
        return {}  # a pool has all its samples in memory
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
    product, crosses = _products(members, request, y)
    payload, _ = feedback.client(product, 1.0, None)
    seen = request.read(Witness).seen(product, request.array("v"))
    whole = Shared(product=product, payload=payload, residual=seen)
    return {client.id: replace(whole, cross=crosses.get(client.id)) for client, _ in members}


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


def _products(
    members: Members, request: Request, y: Tensor
) -> tuple[Tensor, dict[ClientId, Cross]]:
    """Return the cohort's mean product, and every client's cross product where it is asked for."""
    problem, v = members[0][0].problem, direction(request, len(y))
    parts = [curvature_batch(client, request) for client, _ in members]
    x, drawn = _pool(members, [part for part, _ in parts])
    if request.action == "product":
        return product_pass(problem, x, y, drawn, v, request.read(CurvatureSettings)), {}
    rests = [part for _, part in parts if part is not None]
    rest = None
    if rests:  # a client whose samples are all drawn has none left
        left = [part if part is not None else drawn_.take(_NONE) for drawn_, part in parts]
        _, rest = _pool(members, left)
    product, cross = joint_pass(problem, x, y, drawn, rest, v, request.read(CurvatureSettings))
    return product, _split(members, cross)


_NONE = torch.zeros(0, dtype=torch.int64)


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
