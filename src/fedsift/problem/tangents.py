"""J v, J = ∂outputs/∂y, in the way that works for a problem's outputs (``modes``).

    forward        dual numbers, exact
    reverse        u ↦ Jᵀ u is linear, and its transpose is v ↦ J v: two passes back, exact
    differences    (outputs(y + εv) − outputs(y − εv)) / 2ε, for outputs with a gradient only

``push`` keeps the graph for Jᵀ u, ``along`` does not, ``linearised_outputs`` serves many v.

``difference`` is the cheapest: (outputs(y + εv) − outputs(y)) / ε, where the outputs at y are known
already. Forward mode costs three forward passes of a convolutional network, this one. How far it is
off, ``difference_error`` measures on a few samples.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import jvp, linearize

from fedsift.problem.protocol import Composite
from fedsift.problem.run_modes import modes_of

Map = Callable[[Tensor], Tensor]
SHARES = {torch.float32: 1e-5}


@dataclass(frozen=True)
class Tangent:
    """What one pass along v leaves: the outputs, J v, and Jᵀ for later."""

    outputs: Tensor
    along: Tensor
    pull: Map


def push(problem: Composite, y: Tensor, batch: Any, v: Tensor) -> Tangent:
    """Compute outputs and J v in one forward pass whose graph is kept for Jᵀ u.

    Dual numbers inside ordinary autograd: the primal values serve both directions, so that
    Jᵀ Q J v costs about 1.6 gradients instead of the two of ``jvp`` and ``vjp`` apart.
    """
    if modes_of(problem).jacobian in {"reverse", "differences"}:
        point = both_directions(problem, y, batch)
        return Tangent(point.outputs, point.forward(v), point.pull)
    leaf = y.detach().requires_grad_(True)
    with forward_ad.dual_level():
        dual = problem.outputs(forward_ad.make_dual(leaf, v), batch)  # type: ignore[no-untyped-call]
        outputs, along = forward_ad.unpack_dual(dual)  # type: ignore[no-untyped-call]

    def pull(u: Tensor) -> Tensor:
        (product,) = torch.autograd.grad(outputs, leaf, u)
        return product

    return Tangent(outputs.detach(), along.detach(), pull)


def along(problem: Composite, y: Tensor, batch: Any, v: Tensor) -> Tangent:
    """Compute outputs and J v only: a third of the memory of ``push``, and no Jᵀ."""
    way = modes_of(problem).jacobian
    if way == "differences":
        with torch.no_grad():
            outputs = problem.outputs(y, batch)
            return Tangent(outputs, _difference(problem, y, batch, v), _no_graph)
    if way == "reverse":
        point = both_directions(problem, y, batch)
        return Tangent(point.outputs, point.forward(v), _no_graph)
    outputs, tangent = jvp(lambda y_: problem.outputs(y_, batch), (y,), (v,))[:2]
    return Tangent(outputs, tangent, _no_graph)


def _no_graph(u: Tensor) -> Tensor:
    raise NotImplementedError("a tangent made by `along` keeps no graph; use `push`")


@torch.no_grad()
def difference(run: Map, y: Tensor, outputs: Tensor, v: Tensor) -> Tensor:
    """Return (run(y + εv) − outputs) / ε; of several y at once, [C, d], for every one of them.

    ε moves y by a small share of its length. In float32 that is 10⁻⁵: with 10⁻³ the kinks of a
    network of ReLUs put a tenth of ‖J v‖ off, with 10⁻⁶ rounding does.
    """
    size = y.norm(dim=-1, keepdim=True)
    size = torch.where(size > 0, size, torch.ones_like(size))
    length = v.norm()
    share = SHARES.get(y.dtype) or torch.finfo(y.dtype).eps ** 0.5
    step = torch.where(length > 0, share * size / length, torch.ones_like(size))
    per_output = step.view(*step.shape[:-1], *(1,) * (outputs.ndim - y.ndim + 1))
    return (run(y + step * v) - outputs) / per_output


def along_difference(problem: Composite, y: Tensor, batch: Any, v: Tensor) -> Tangent:
    """Compute outputs and J v by two forward passes, without a graph."""

    def run(y_: Tensor) -> Tensor:
        return problem.outputs(y_, batch)

    with torch.no_grad():
        outputs = run(y)
    return Tangent(outputs, difference(run, y, outputs, v), _no_graph)


def difference_error(problem: Composite, y: Tensor, batch: Any, v: Tensor) -> float:
    """Return ‖difference − J v‖ / ‖J v‖ on these samples; 0 where there is no other way."""
    if modes_of(problem).jacobian == "differences":
        return 0.0
    there = along(problem, y, batch, v)
    exact = there.along
    off = difference(lambda y_: problem.outputs(y_, batch), y, there.outputs, v) - exact
    size = float(exact.norm())
    return float(off.norm()) / size if size > 0 else float(off.norm())


def linearised_outputs(problem: Composite, y: Tensor, batch: Any) -> tuple[Tensor, Map]:
    """Return the outputs and v ↦ J v, what does not depend on v computed once."""
    way = modes_of(problem).jacobian
    if way in {"reverse", "differences"}:
        point = both_directions(problem, y, batch)
        return point.outputs, point.forward

    def function(y_: Tensor) -> Tensor:
        return problem.outputs(y_, batch)

    if way == "forward":
        return function(y).detach(), lambda v: jvp(function, (y,), (v,))[1]
    return linearised(function, y)


@dataclass(frozen=True)
class BothDirections:
    """The outputs at y, v ↦ J v and u ↦ Jᵀ u, without forward mode."""

    outputs: Tensor
    forward: Map
    pull: Map


def both_directions(problem: Composite, y: Tensor, batch: Any) -> BothDirections:
    """Keep one graph at y for any number of products in both directions."""
    leaf = y.detach().requires_grad_(True)
    outputs = problem.outputs(leaf, batch)

    def pull(u: Tensor) -> Tensor:
        return torch.autograd.grad(outputs, leaf, u, retain_graph=True)[0]

    if modes_of(problem).jacobian == "differences":

        @torch.no_grad()
        def difference(v: Tensor) -> Tensor:
            return _difference(problem, leaf.detach(), batch, v)

        return BothDirections(outputs.detach(), difference, pull)
    free = torch.zeros_like(outputs, requires_grad=True)
    (transpose,) = torch.autograd.grad(outputs, leaf, free, create_graph=True)

    def forward(v: Tensor) -> Tensor:
        return torch.autograd.grad(transpose, free, v, retain_graph=True)[0]

    return BothDirections(outputs.detach(), forward, pull)


def linearised(function: Map, y: Tensor) -> tuple[Tensor, Map]:
    """Return the function's value at y and its derivative as a function of the direction."""
    with warnings.catch_warnings():  # torch's constant folding warns about its own graph
        warnings.filterwarnings("ignore", message="Attempted to insert a get_attr Node")
        value, forward = linearize(function, y)
    return value, forward


def _difference(problem: Composite, y: Tensor, batch: Any, v: Tensor) -> Tensor:
    """Balance the error of the difference with that of rounding: ε³ is the dtype's precision."""
    size = v.norm()
    step = torch.finfo(y.dtype).eps ** (1 / 3) * (1 + y.norm()) / size
    if not bool(torch.isfinite(step)):
        step = torch.ones_like(size)  # v = 0
    ahead, behind = problem.outputs(y + step * v, batch), problem.outputs(y - step * v, batch)
    difference: Tensor = (ahead - behind) / (2 * step)
    return difference
