"""A site: all that a client can be asked, and the only code that sees a sample.

``answer(site, state, request)`` returns a reply and the site's next state. The state holds the
client's part of x (its sample weights) and the error memory of its compressor; neither is ever
part of a reply.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedsift.algorithms.comm_fedbio import OuterStep
from fedsift.algorithms.fedavg import LocalSteps, local_sgd
from fedsift.compress import SparseEmbedding, feedback_for, from_spec
from fedsift.curvature import CURVATURES, bend, cross_from, products, push
from fedsift.errors import FedsiftError, InputError
from fedsift.messages import Action, Reply, Request, Scalar
from fedsift.problem import Composite, Problem, chunks, cross_product
from fedsift.randomness import generator

CHUNK = 64  # samples in one pass: larger ones leave the cache and are slower, and need more memory


@dataclass(frozen=True)
class Site:
    """The fixed part of a client: who it is, its samples, the problem."""

    client: int
    problem: Problem
    batch: Any
    seed: int = 0


@dataclass(frozen=True)
class SiteState:
    """The changing part of a client.

    ``x`` is None where x is shared. ``average`` is the exponential mean of x over rounds, which
    the audit reads. ``y`` is the model of the running round, so that it need not be sent twice.
    """

    x: Tensor | None = None
    average: Tensor | None = None
    memory: Tensor | None = None
    y: Tensor | None = None


def initial_state(site: Site) -> SiteState:
    """Return the state of a client that was never asked anything."""
    if not site.problem.x_is_private:
        return SiteState()
    x = site.problem.initial_x(site.batch)
    return SiteState(x=x, average=x)


def answer(site: Site, state: SiteState, request: Request) -> tuple[Reply, SiteState]:
    """Do what the request says; an error on purpose becomes an error reply."""
    try:
        arrays, scalars, state = _ACTIONS[request.action](site, state, request)
    except FedsiftError as error:
        return Reply(site.client, len(site.batch), error=str(error)), state
    return Reply(site.client, len(site.batch), arrays, scalars), state


Outcome = tuple[dict[str, Any], dict[str, Scalar], SiteState]


def _train(site: Site, state: SiteState, request: Request) -> Outcome:
    """Algorithm 1, lines 5-8."""
    x, y, state = _where(site, state, request)
    local = LocalSteps(**{k: request.scalars[k] for k in ("steps", "lr", "batch_size")})  # type: ignore[arg-type]
    source = generator(site.seed, request.round, site.client, "batches")
    trained, loss = local_sgd(site.problem, x, y, site.batch, local, source)
    return {"update": trained - y}, {"loss": loss}, state


def _product(site: Site, state: SiteState, request: Request) -> Outcome:
    """Algorithm 2, line 5: a compressed Hessian product."""
    x, y, state = _where(site, state, request)
    product = _curvature(site, x, y, request)(_array(request, "v"))
    return _compressed(product, state, request)


def _compressed(product: Tensor, state: SiteState, request: Request) -> Outcome:
    """Return S(∇²_yy g_m v), with the error memory where the client keeps it."""
    feedback = feedback_for(from_spec(json.loads(str(request.scalars["compressor"]))))
    memory = None if request.scalars["fresh"] else state.memory
    payload, memory = feedback.client(product, _number(request, "step"), memory)
    scalars: dict[str, Scalar] = {
        "curvature": float(_array(request, "v") @ product),
        "error": 0.0 if memory is None else float(memory.norm()),
    }
    # A feedback that keeps nothing here leaves what another one keeps: an uncompressed product
    # that measures the residual must not cost Top-k its memory.
    return (
        {"product": payload},
        scalars,
        replace(state, memory=memory) if memory is not None else state,
    )


def _sketch(site: Site, state: SiteState, request: Request) -> Outcome:
    """Algorithm 3, line 4: S_2 ∇²_yy g_m S_1ᵀ."""
    x, y, state = _where(site, state, request)
    r1, r2, seed1, seed2 = (int(_number(request, k)) for k in ("r1", "r2", "seed1", "seed2"))
    S1 = SparseEmbedding(r1, len(y), seed1)
    S2 = SparseEmbedding(r2, len(y), seed2)
    columns = S1.transpose_apply(torch.eye(r1, dtype=y.dtype, device=y.device))
    return {"sketch": S2.apply(_curvature(site, x, y, request)(columns))}, {}, state


def _outer(site: Site, state: SiteState, request: Request) -> Outcome:
    """∇²_xy g_m v; and the outer step if x is this client's own."""
    x, y, state = _where(site, state, request)
    v = _direction(request, len(y))
    return _moved(site, x, _cross(site, x, y, site.batch, v), state, request)


def _moved(site: Site, x: Tensor, cross: Tensor, state: SiteState, request: Request) -> Outcome:
    """Step the client's own x along the hypergradient; a shared x is the server's to step."""
    if state.x is None:
        return {"cross": cross}, {}, state
    share = len(site.batch) / _number(request, "total_samples")
    outer = OuterStep(_number(request, "outer_lr"), str(request.scalars["outer_rule"]))
    # ∇h = −(N_m/N) ∇²_xy g_m v: F does not depend on a private x.
    new = site.problem.project(x - outer.change(-share * cross))
    average = new if state.average is None else AVERAGING * state.average + (1 - AVERAGING) * new
    return {}, {}, replace(state, x=new, average=average)


def _step(site: Site, state: SiteState, request: Request) -> Outcome:
    """Single loop: local steps, product and outer step, all at the same (x_k, y_k, v_k)."""
    x, y, state = _where(site, state, request)
    trained, scalars, state = _train(site, state, request)
    product, cross = _product_and_cross(site, x, y, request)
    payload, extra, state = _compressed(product, state, request)
    moved, _, state = _moved(site, x, cross, state, request)
    return {**trained, **payload, **moved}, {**scalars, **extra}, state


AVERAGING = 0.9  # weight of the past in the mean of x over rounds

_ACTIONS: dict[Action, Callable[[Site, SiteState, Request], Outcome]] = {
    Action.TRAIN: _train,
    Action.PRODUCT: _product,
    Action.SKETCH: _sketch,
    Action.OUTER: _outer,
    Action.STEP: _step,
}


def _where(site: Site, state: SiteState, request: Request) -> tuple[Tensor, Tensor, SiteState]:
    """Return (x, y) of the request; a y that is not sent is the last one sent this round."""
    y = _array(request, "y") if "y" in request.arrays else state.y
    x = state.x if state.x is not None else _array(request, "x")
    if y is None:
        raise InputError(
            f"client {site.client} was asked to '{request.action}' before any model came"
        )
    return x, y, replace(state, y=y)


def _curvature(site: Site, x: Tensor, y: Tensor, request: Request) -> Callable[[Tensor], Tensor]:
    """Return the client's curvature, over all its samples or a drawn batch, in chunks."""
    kind = CURVATURES[str(request.scalars["curvature"])]
    damping = _number(request, "damping")
    batch, _ = _draw(site, request)

    def apply(v: Tensor) -> Tensor:
        out = torch.zeros_like(v)
        for part in chunks(batch, CHUNK):
            if v.ndim == 1:
                product = kind.once(site.problem, x, y, part, damping).product(v)
            else:
                product = products(kind.repeated(site.problem, x, y, part, damping), v)
            out += (len(part) / len(batch)) * product
        return out

    return apply


def _cross(site: Site, x: Tensor, y: Tensor, batch: Any, v: Tensor) -> Tensor:
    """Return ∇²_xy g_m v as far as these samples go: the parts of a batch add up."""
    cross = torch.zeros_like(x)
    for part in chunks(batch, CHUNK):
        share = len(part) / len(site.batch)
        cross += share * cross_product(site.problem, x, y, part, v)
    return cross


def _product_and_cross(site: Site, x: Tensor, y: Tensor, request: Request) -> tuple[Tensor, Tensor]:
    """Return ∇²_yy g_m v and ∇²_xy g_m v; with Gauss-Newton one pass along v serves both."""
    v, problem = _array(request, "v"), site.problem
    if request.scalars["curvature"] != "gauss-newton" or not isinstance(problem, Composite):
        return _curvature(site, x, y, request)(v), _cross(site, x, y, site.batch, v)
    drawn, rest = _draw(site, request)
    product, cross = problem.l2 * v, torch.zeros_like(x)
    for part in chunks(drawn, CHUNK):
        tangent = push(problem, y, part, v)
        bent = bend(problem, x, tangent.outputs, part)(tangent.along)
        product = product + (len(part) / len(drawn)) * tangent.pull(bent)
        cross += (len(part) / len(site.batch)) * cross_from(problem, x, tangent, part)
    if rest is not None:
        cross += _cross(site, x, y, rest, v)
    return product, cross


def _draw(site: Site, request: Request) -> tuple[Any, Any | None]:
    """Split a client's samples into the drawn curvature batch and the rest."""
    size, n = int(_number(request, "curvature_batch")), len(site.batch)
    if not 0 < size < n:
        return site.batch, None
    source = generator(site.seed, request.round, site.client, "curvature")
    order = torch.randperm(n, generator=source)
    return site.batch.take(order[:size]), site.batch.take(order[size:])


def _direction(request: Request, length: int) -> Tensor:
    """Return v, or make it from ω: v = S_1ᵀ ω."""
    if "omega" not in request.arrays:
        return _array(request, "v")
    r1, seed1 = int(_number(request, "r1")), int(_number(request, "seed1"))
    return SparseEmbedding(r1, length, seed1).transpose_apply(_array(request, "omega"))


def _array(request: Request, name: str) -> Tensor:
    value = request.arrays.get(name)
    if not isinstance(value, Tensor):
        raise InputError(f"the request '{request.action}' has no dense array '{name}'")
    return value


def _number(request: Request, name: str) -> float:
    value = request.scalars.get(name)
    if isinstance(value, str) or value is None:
        raise InputError(f"the request '{request.action}' has no number '{name}'")
    return value
