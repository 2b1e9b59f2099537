"""The reference: solve (∇²_yy G) v = ∇_y F as exactly as possible, at any cost.

A dense solve when d is small (d exchanges to fetch the matrix), conjugate gradients otherwise (one
exchange per iteration). Nothing is compressed. Meant for tests and for measuring other estimators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedsift.hypergradient.estimate import (
    CurvatureSettings,
    Estimate,
    Point,
    SolverState,
    relative,
)
from fedsift.hypergradient.products import exact_product
from fedsift.messages import Cohort


@dataclass(frozen=True)
class Exact:
    """The reference: v as exactly as possible, uncompressed, at any cost.

    Attributes:
        curvature: Which matrix is used.
        dense_up_to: Up to this many parameters the matrix is fetched, a column per exchange;
            above, conjugate gradients are used.
        tolerance: The relative residual at which conjugate gradients stop.
        max_iterations: At most this many of them.
    """

    curvature: CurvatureSettings = CurvatureSettings()
    dense_up_to: int = 200
    tolerance: float = 1e-10
    max_iterations: int = 1000

    def estimate(
        self, cohort: Cohort, point: Point, state: SolverState
    ) -> tuple[Estimate, SolverState]:
        """Return v with its true residual."""
        b = point.outer_gradient

        def product(v: Tensor) -> Tensor:
            return exact_product(cohort, point, v, self.curvature)

        if len(b) <= self.dense_up_to:
            v, steps, advice = solve_dense(product, b)
        else:
            v, steps, advice = conjugate_gradients(product, b, self.tolerance, self.max_iterations)
        estimate = Estimate(
            v=v,
            residual=relative(product(v) - b, b),
            residual_is_exact=True,
            iterations=steps,
            direction_arrays={**point.arrays(y_is_known=True), "v": v},
            usable=bool(torch.isfinite(v).all()),
            advice=advice,
            events=() if advice is None else (advice,),
        )
        return estimate, replace(state, v=v)


def solve_dense(product: Callable[[Tensor], Tensor], b: Tensor) -> tuple[Tensor, int, str | None]:
    """Fetch the matrix column by column and solve; least squares where it is singular."""
    eye = torch.eye(len(b), dtype=b.dtype, device=b.device)
    H = torch.stack([product(column) for column in eye], dim=1)
    H = 0.5 * (H + H.T)
    eigenvalues = torch.linalg.eigvalsh(H)
    advice = None
    if float(eigenvalues[0]) <= len(b) * torch.finfo(b.dtype).eps * float(eigenvalues.abs().max()):
        kind = "indefinite" if float(eigenvalues[0]) < 0 else "singular"
        advice = (
            f"the Hessian is {kind} (smallest eigenvalue {float(eigenvalues[0]):.3g}); use "
            "curvature 'gauss-newton' or raise the damping"
        )
    return torch.linalg.lstsq(H, b, driver="gelsd").solution, len(b), advice


def conjugate_gradients(
    product: Callable[[Tensor], Tensor], b: Tensor, tolerance: float, max_iterations: int
) -> tuple[Tensor, int, str | None]:
    """Solve H v = b for a positive definite H; stop at negative curvature or the last iteration."""
    v = torch.zeros_like(b)
    r = b.clone()
    p = r.clone()
    rr = r @ r
    goal = tolerance * b.norm()
    for i in range(max_iterations):
        if rr.sqrt() <= goal:
            return v, i, None
        Hp = product(p)
        curvature = p @ Hp
        if not curvature > 0:
            advice = (
                f"conjugate gradients met curvature {float(curvature):.3g} in iteration {i}; use "
                "curvature 'gauss-newton' or raise the damping"
            )
            return v, i, advice
        alpha = rr / curvature
        v = v + alpha * p
        r = r - alpha * Hp
        rr, previous = r @ r, rr
        p = r + (rr / previous) * p
    if rr.sqrt() <= goal:
        return v, max_iterations, None
    advice = (
        f"conjugate gradients stopped after {max_iterations} iterations at residual "
        f"{float(rr.sqrt() / b.norm()):.3g}; allow more iterations or raise the damping"
    )
    return v, max_iterations, advice
