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

from fedsift.algorithms.comm_fedbio import Move
from fedsift.algorithms.fedavg import LocalSteps, Trained, local_sgd
from fedsift.client import baselines
from fedsift.client.baselines import Look
from fedsift.client.passes import (
    Cross,
    Curvature,
    cross_pass,
    galerkin_pass,
    joint_pass,
    product_pass,
    sketch_pass,
)
from fedsift.compress import Feedback, Payload, SparseEmbedding, feedback_for, from_spec
from fedsift.errors import FedsiftError, InputError
from fedsift.messages import Action, Reply, Request, Scalar
from fedsift.problem import Problem
from fedsift.randomness import generator


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

    ``x`` is None where x is shared. The audit reads ``average``, the exponential mean of x over
    rounds, and ``agreement``, that of the model's agreement with the labels. ``memory`` is what a
    method keeps between rounds: its compressor's error, or the validation loss of the model that
    judged the labels. ``y`` is the model of the running round, so that it need not be sent twice.
    """

    x: Tensor | None = None
    average: Tensor | None = None
    agreement: Tensor | None = None
    memory: Tensor | None = None
    y: Tensor | None = None


@dataclass(frozen=True)
class Seen:
    """What a federation in one process has already computed for the whole cohort.

    ``product`` and ``payload`` are the cohort's mean, not this client's own: the mean of equal
    things is the thing, so the server gets the same sum.
    """

    trained: Trained | None = None
    product: Tensor | None = None
    payload: Payload | None = None
    cross: Cross | None = None


def initial_state(site: Site) -> SiteState:
    """Return the state of a client that was never asked anything."""
    if not site.problem.x_is_private:
        return SiteState()
    x = site.problem.initial_x(site.batch)
    return SiteState(x=x, average=x)


def answer(
    site: Site, state: SiteState, request: Request, seen: Seen | None = None
) -> tuple[Reply, SiteState]:
    """Do what the request says; an error on purpose becomes an error reply."""
    try:
        if request.action in _POOLED:
            outcome = _POOLED[request.action](site, state, request, seen or Seen())
        else:
            outcome = _ACTIONS[request.action](site, state, request)
        arrays, scalars, state = outcome
    except FedsiftError as error:
        return Reply(site.client, len(site.batch), error=str(error)), state
    return Reply(site.client, len(site.batch), arrays, scalars), state


Outcome = tuple[dict[str, Any], dict[str, Scalar], SiteState]


def _train(site: Site, state: SiteState, request: Request, seen: Seen | None = None) -> Outcome:
    """Algorithm 1, lines 5-8."""
    x, y, state = _where(site, state, request)
    trained = seen.trained if seen else None
    if trained is None:
        source = batches(site, request)
        trained = local_sgd(site.problem, x, y, site.batch, local_steps(request), source)
    return {"update": trained.y - y}, {"loss": float(trained.loss)}, state


def _product(site: Site, state: SiteState, request: Request, seen: Seen) -> Outcome:
    """Algorithm 2, line 5: a compressed Hessian product."""
    x, y, state = _where(site, state, request)
    product = seen.product
    if product is None:
        drawn, _ = draw(site, request)
        product = product_pass(site.problem, x, y, drawn, direction(request), curvature(request))
    return _compressed(product, state, request, seen)


def _compressed(product: Tensor, state: SiteState, request: Request, seen: Seen) -> Outcome:
    """Return S(∇²_yy g_m v), with the error memory where the client keeps it."""
    memory: Tensor | None = None
    payload = seen.payload
    if payload is None:
        feedback = requested_feedback(request)
        memory = None if request.scalars["fresh"] else state.memory
        payload, memory = feedback.client(product, request.number("step"), memory)
    scalars: dict[str, Scalar] = {
        "curvature": float(request.array("v") @ product),
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
    """Algorithm 3, line 4: S_2 ∇²_yy g_m S_1ᵀ, or with S_1 on both sides."""
    x, y, state = _where(site, state, request)
    r1, r2, seed1, seed2 = (int(request.number(k)) for k in ("r1", "r2", "seed1", "seed2"))
    S1, drawn = SparseEmbedding(r1, len(y), seed1), draw(site, request)[0]
    if request.scalars.get("system") == "galerkin":
        system = galerkin_pass(site.problem, x, y, drawn, S1, curvature(request))
    else:
        S2 = SparseEmbedding(r2, len(y), seed2)
        system = sketch_pass(site.problem, x, y, drawn, S1, S2, curvature(request))
    return {"sketch": system}, {}, state


def _outer(site: Site, state: SiteState, request: Request, seen: Seen) -> Outcome:
    """∇²_xy g_m v; and the outer step if x is this client's own."""
    x, y, state = _where(site, state, request)
    cross = seen.cross or cross_pass(
        site.problem, x, y, site.batch, direction(request, len(y)), len(site.batch)
    )
    return _moved(site, x, cross, state, request)


def _moved(site: Site, x: Tensor, cross: Cross, state: SiteState, request: Request) -> Outcome:
    """Step the client's own x along the hypergradient; a shared x is the server's to step."""
    if state.x is None:
        return {"cross": cross.value}, {}, state
    share = len(site.batch) / request.number("total_samples")
    rule = str(request.scalars["outer_rule"])
    move = Move(request.number("outer_lr"), rule, request.number("pace"))
    # ∇h = −(N_m/N) ∇²_xy g_m v: F does not depend on a private x.
    new = x - move.change(-share * cross.value)
    agreement = _averaged(state.agreement, cross.agreement)
    if agreement is not None:
        new = new + move.own(x, agreement)
    new = site.problem.project(new)
    average = _averaged(state.average, new)
    return {}, {}, replace(state, x=new, average=average, agreement=agreement)


def _averaged(past: Tensor | None, new: Tensor | None) -> Tensor | None:
    """Return the exponential mean over rounds."""
    if past is None or new is None:
        return new
    return AVERAGING * past + (1 - AVERAGING) * new


def _step(site: Site, state: SiteState, request: Request, seen: Seen) -> Outcome:
    """Single loop: local steps, product and outer step, all at the same (x_k, y_k, v_k)."""
    x, y, state = _where(site, state, request)
    trained, scalars, state = _train(site, state, request, seen)
    product, cross = seen.product, seen.cross
    if product is None or cross is None:
        product, cross = joint_pass(
            site.problem, x, y, *draw(site, request), direction(request), curvature(request)
        )
    payload, extra, state = _compressed(product, state, request, seen)
    moved, _, state = _moved(site, x, cross, state, request)
    return {**trained, **payload, **moved}, {**scalars, **extra}, state


def _train_kept(site: Site, state: SiteState, request: Request) -> Outcome:
    """Preprocess: local steps as if samples of weight 0 were not there."""
    x, _, _ = _where(site, state, request)
    kept = site.batch.take(x.nonzero().squeeze(1))
    if not len(kept):
        raise InputError(f"client {site.client} has no sample of positive weight to train on")
    trained, scalars, state = _train(replace(site, batch=kept), state, request)
    return trained, {**scalars, "kept": len(kept)}, state


def _looking(look: Look, *, train: bool) -> Callable[[Site, SiteState, Request, Seen], Outcome]:
    """Return an action that looks at single samples, with local steps where ``train``."""

    def act(site: Site, state: SiteState, request: Request, seen: Seen) -> Outcome:
        trained, scalars, state = _train(site, state, request, seen) if train else ({}, {}, state)
        _, y, state = _where(site, state, request)
        arrays, said, changes = look(site.problem, site.batch, y, request, state.memory)
        return {**trained, **arrays}, {**scalars, **said}, replace(state, **changes)

    return act


AVERAGING = 0.9  # weight of the past in the mean of x over rounds

_ACTIONS: dict[Action, Callable[[Site, SiteState, Request], Outcome]] = {
    Action.SKETCH: _sketch,
    Action.TRAIN_KEPT: _train_kept,
}

_POOLED: dict[Action, Callable[[Site, SiteState, Request, Seen], Outcome]] = {
    Action.TRAIN: _train,
    Action.PRODUCT: _product,
    Action.OUTER: _outer,
    Action.STEP: _step,
    Action.ASSESS: _looking(baselines.own_loss, train=True),
    Action.COUNT: _looking(baselines.count, train=False),
    Action.KEEP: _looking(baselines.keep, train=False),
    Action.JUDGE: _looking(baselines.judge, train=True),
}


def _where(site: Site, state: SiteState, request: Request) -> tuple[Tensor, Tensor, SiteState]:
    """Return (x, y) of the request; a y that is not sent is the last one sent this round."""
    y = request.array("y") if "y" in request.arrays else state.y
    x = state.x if state.x is not None else request.array("x")
    if y is None:
        raise InputError(
            f"client {site.client} was asked to '{request.action}' before any model came"
        )
    return x, y, replace(state, y=y)


def local_steps(request: Request) -> LocalSteps:
    """Return the local steps that the request asks for."""
    steps, size = (int(request.number(key)) for key in ("steps", "batch_size"))
    return LocalSteps(steps, request.number("lr"), size)


def batches(site: Site, request: Request) -> torch.Generator:
    """Return what a client draws its batches of a round from."""
    return generator(site.seed, request.round, site.client, "batches")


def curvature(request: Request) -> Curvature:
    """Return the matrix that the request asks for."""
    return Curvature(str(request.scalars["curvature"]), request.number("damping"))


def requested_feedback(request: Request) -> Feedback:
    """Return the compressor of the request, with its error feedback."""
    return feedback_for(from_spec(json.loads(str(request.scalars["compressor"]))))


def draw(site: Site, request: Request) -> tuple[Any, Any | None]:
    """Split a client's samples into the drawn curvature batch and the rest."""
    size, n = int(request.number("curvature_batch")), len(site.batch)
    if not 0 < size < n:
        return site.batch, None
    source = generator(site.seed, request.round, site.client, "curvature")
    order = torch.randperm(n, generator=source)
    return site.batch.take(order[:size]), site.batch.take(order[size:])


def direction(request: Request, length: int = 0) -> Tensor:
    """Return v, or make it from ω: v = S_1ᵀ ω."""
    if "omega" not in request.arrays:
        return request.array("v")
    r1, seed1 = int(request.number("r1")), int(request.number("seed1"))
    return SparseEmbedding(r1, length, seed1).transpose_apply(request.array("omega"))
