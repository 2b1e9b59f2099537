"""The curvature of the inner loss at one point, as a linear operator.

    Hessian        v ↦ ∇²_yy g(x, y) v + damping · v
    GaussNewton    v ↦ Jᵀ Q J v + (l2 + damping) · v,   J = ∂outputs/∂y,  Q = ∇²_outputs loss

Gauss-Newton is positive semidefinite for any network, because Q is for a convex output loss; the
Hessian of a network is not, and the linear system that defines v may then have no minimiser. Both
agree where the outputs are linear in y.

Each comes in two forms with equal products. ``once`` shares nothing between products and costs
nothing to make. ``repeated`` linearises first: what does not depend on v is computed when it is
made, which pays from the third to the tenth product on for the paper's CNN and never for a network
that is faster than its tracing, half a second (``make bench`` measures it).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor
from torch.func import grad, vjp

from fedsift.errors import InputError
from fedsift.problem.gradient_graph import GradientGraph
from fedsift.problem.protocol import Composite, Problem, SampleWeighting
from fedsift.problem.run_modes import modes_of
from fedsift.problem.tangents import Tangent, both_directions, linearised, linearised_outputs, push


class Operator(Protocol):
    """A symmetric linear map on R^d."""

    def product(self, v: Tensor) -> Tensor:
        """Return the operator applied to a vector."""
        ...


@dataclass(frozen=True)
class Shifted:
    """v ↦ matrix(v) + shift · v."""

    matrix: Callable[[Tensor], Tensor]
    shift: float

    def product(self, v: Tensor) -> Tensor:
        """Return the operator applied to a vector."""
        return self.matrix(v) + self.shift * v


def output_hessian(
    problem: Composite, x: Tensor, outputs: Tensor, batch: Any
) -> Callable[[Tensor], Tensor]:
    """Return u ↦ Q u, the Hessian of the output loss."""

    def loss(outputs_: Tensor) -> Tensor:
        return problem.output_loss(x, outputs_, batch)

    transpose = vjp(grad(loss), outputs)[1]
    return lambda u: transpose(u)[0]


def cross_from(problem: Composite, x: Tensor, tangent: Tangent, batch: Any) -> Tensor:
    """Return ∇²_xy g v from J v: ∇_x ⟨∇_outputs loss(x), J v⟩, since l2 does not depend on x."""
    if isinstance(problem, SampleWeighting):
        return problem.cross_from(x, tangent.outputs, tangent.along, batch)

    def slope(x_: Tensor) -> Tensor:
        gradient: Tensor = grad(lambda o: problem.output_loss(x_, o, batch))(tangent.outputs)
        return (gradient * tangent.along).sum()

    cross: Tensor = grad(slope)(x)
    return cross


def hessian_once(problem: Problem, x: Tensor, y: Tensor, batch: Any, damping: float) -> Shifted:
    """Make the Hessian by keeping the graph of the gradient; a product is a pass back.

    Ordinary autograd does that for any module, with the bits of ``torch.func`` and in less time.
    """
    modes_of(problem).need_hessian()
    return Shifted(GradientGraph.at(problem, x, y, batch).product, damping)


def hessian_repeated(problem: Problem, x: Tensor, y: Tensor, batch: Any, damping: float) -> Shifted:
    """Make the Hessian as the linearised gradient."""
    modes = modes_of(problem)
    if modes.hessian != "functional" or modes.jacobian != "linearised":
        return hessian_once(problem, x, y, batch, damping)

    def loss(y_: Tensor) -> Tensor:
        return problem.inner_loss(x, y_, batch)

    return Shifted(linearised(grad(loss), y)[1], damping)


def gauss_newton_once(
    problem: Problem, x: Tensor, y: Tensor, batch: Any, damping: float
) -> Shifted:
    """Make Jᵀ Q J with one forward and one backward pass per product."""
    composite = _composite(problem)

    def matrix(v: Tensor) -> Tensor:
        tangent = push(composite, y, batch, v)
        return tangent.pull(output_hessian(composite, x, tangent.outputs, batch)(tangent.along))

    return Shifted(matrix, composite.l2 + damping)


def gauss_newton_repeated(
    problem: Problem, x: Tensor, y: Tensor, batch: Any, damping: float
) -> Shifted:
    """Make Jᵀ Q J with a linearised forward pass and the kept graph of a backward pass."""
    composite = _composite(problem)
    if modes_of(problem).jacobian in {"reverse", "differences"}:
        kept = both_directions(composite, y, batch)
        H = output_hessian(composite, x, kept.outputs, batch)
        return Shifted(lambda v: kept.pull(H(kept.forward(v))), composite.l2 + damping)
    forward = linearised_outputs(composite, y, batch)[1]
    point, pull = vjp(lambda y_: composite.outputs(y_, batch), y)[:2]
    Q = output_hessian(composite, x, point, batch)
    return Shifted(lambda v: pull(Q(forward(v)))[0], composite.l2 + damping)


@dataclass(frozen=True)
class OperatorMakes:
    """The two forms of one operator."""

    once: Callable[[Problem, Tensor, Tensor, Any, float], Operator]
    repeated: Callable[[Problem, Tensor, Tensor, Any, float], Operator]


CURVATURES: dict[str, OperatorMakes] = {
    "hessian": OperatorMakes(hessian_once, hessian_repeated),
    "gauss-newton": OperatorMakes(gauss_newton_once, gauss_newton_repeated),
}


def _composite(problem: Problem) -> Composite:
    if not isinstance(problem, Composite):
        raise InputError(
            f"{type(problem).__name__} has no Gauss-Newton matrix because its inner loss is not "
            "written as a loss of outputs; use curvature 'hessian'"
        )
    return problem
