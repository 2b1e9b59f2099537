"""The client's half of a personal lower level (``algorithms/personal.py``): all of it but x.

y_m and v_m stay in the client's state. Without a step size the client takes 1/L_m, with L_m the
largest eigenvalue of its own ∇²_yy g_m where it starts, by ``STEPS`` products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedsift.algorithms.personal import OwnSystem
from fedsift.client.inputs import batch_generator, curvature_batch
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.errors import InputError
from fedsift.hypergradient import CurvatureSettings
from fedsift.messages import Request
from fedsift.problem import cross_product, outer_loss_and_gradients
from fedsift.problem.curvature import CURVATURES
from fedsift.problem.largest_curvature import STEPS, lanczos
from fedsift.problem.sgd import LocalSteps, local_sgd
from fedsift.randomness import generator

Product = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class System:
    """H v = right, from ``start``."""

    product: Product
    right: Tensor
    start: Tensor

    @property
    def residual(self) -> Tensor:
        """∇_y f − H v at the start."""
        return self.right - self.product(self.start)


def personal(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:  # noqa: ARG001
    """Step y_m, solve for v_m, reply with ∇_x f_m − ∇²_xy g_m v_m."""
    if client.validation is None:
        raise InputError(
            f"client {client.id} has no validation samples, and with a y of its own F is the "
            "clients'; give every client its own"
        )
    problem, x = client.problem, request.array("x")
    y = request.array("y") if state.own_y is None else state.own_y
    local, asked = request.read(LocalSteps), request.read(OwnSystem)
    own_step = state.own_step
    if own_step is None and 0.0 in {local.lr, asked.solver_lr}:
        own_step = torch.tensor(1.0 / _largest(client, x, y, request), dtype=torch.float64)
    if own_step is not None:
        local = local if local.lr else replace(local, lr=float(own_step))
        asked = asked if asked.solver_lr else replace(asked, solver_lr=float(own_step))

    trained = local_sgd(problem, x, y, client.batch, local, batch_generator(client, request))
    y = trained.y.detach()
    loss, gx, gy = outer_loss_and_gradients(problem, x, y, client.validation)
    start = torch.zeros_like(y) if state.own_v is None else state.own_v
    system = System(_matrix(client, x, y, request), gy, start)
    v = SOLVERS[asked.solver](system, asked)
    left = gy - system.product(v)
    hypergradient = gx - cross_product(problem, x, y, client.batch, v)
    scalars = {
        "loss": float(trained.loss),
        "outer_loss": float(loss),
        "own_residual": float(left.norm() / gy.norm().clamp(min=1e-30)),
    }
    state = replace(state, own_y=y, own_v=v, own_step=own_step)
    return Outcome({"hypergradient": hypergradient}, dict(scalars), state)


def _matrix(client: Client, x: Tensor, y: Tensor, request: Request) -> Product:
    curvature, (batch, _) = request.read(CurvatureSettings), curvature_batch(client, request)
    make = CURVATURES[curvature.kind].once  # a client's own model is small: tracing would not pay
    return make(client.problem, x, y, batch, curvature.damping).product


def _largest(client: Client, x: Tensor, y: Tensor, request: Request) -> float:
    source = generator(client.seed, client.id, "largest eigenvalue")
    start = torch.randn(len(y), generator=source, dtype=torch.float64).to(y)
    found = lanczos(_matrix(client, x, y, request), start, STEPS)
    if not 0 < found < float("inf"):
        raise InputError(
            f"the largest eigenvalue of client {client.id}'s inner Hessian at the start is "
            f"{found:.3g}, from which no step follows; give inner_lr and solver_lr"
        )
    return found


def _one_step(system: System, asked: OwnSystem) -> Tensor:
    return system.start + asked.solver_lr * system.residual


def _conjugate(system: System, asked: OwnSystem) -> Tensor:
    v, r = system.start.clone(), system.residual
    p, square = r.clone(), r @ r
    for _ in range(asked.terms):
        Hp = system.product(p)
        bent = p @ Hp
        if not float(bent) > 0:  # solved, or H is not positive along p
            break
        v, r = v + (square / bent) * p, r - (square / bent) * Hp
        before, square = square, r @ r
        p = r + (square / before) * p
    return v


def _neumann(system: System, asked: OwnSystem) -> Tensor:
    term = v = asked.solver_lr * system.right
    for _ in range(asked.terms):
        term = term - asked.solver_lr * system.product(term)
        v = v + term
    return v


SOLVERS: dict[str, Callable[[System, OwnSystem], Tensor]] = {
    "single-loop": _one_step,
    "cg": _conjugate,
    "neumann": _neumann,
}
