"""Beyond the paper: a Nyström approximation of the matrix, in one exchange of r products.

    Y = (∇²_yy G) Ω,   Ω = S_1ᵀ          clients send d × r numbers
    H ≈ Y (ΩᵀY)⁻¹ Yᵀ = U Λ Uᵀ           eigenvalues Λ, the r largest if Ω sees them
    v = U (Λ + δ)⁻¹ Uᵀ b + (b − U Uᵀ b) / (λ_r + δ)

Outside the span of U the curvature is at most about λ_r, the smallest that was seen, and is taken
to be that: v is then too short there, never too long. The shift of Frangella, Tropp and Udell
(2023) keeps the factorisation stable. Uplink is r d, so it is not sub-linear in d: it is the
answer where an exchange is dear and bytes are not, and where few eigenvalues are large.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from fedsift.compress import Payload
from fedsift.errors import ConfigError
from fedsift.hypergradient.estimate import CurvatureSettings, Estimate, Point, SolverState
from fedsift.hypergradient.non_iterative import COLUMNS, SketchedSystem
from fedsift.hypergradient.products import exact_residual, measure_request
from fedsift.hypergradient.residual import Judge, Witness
from fedsift.hypergradient.settings import (
    CurvatureKeys,
    EstimatorRow,
    ResidualKeys,
    curvature_of,
)
from fedsift.keys import BuildContext, Keys, Settings, key
from fedsift.messages import Cohort, Request, scalars_of
from fedsift.randomness import derive


@dataclass(frozen=True)
class Nystrom:
    """A symmetric sketch of rank r.

    Attributes:
        rank: r, the products that a client makes.
        curvature: Which matrix is used.
        check_residual: Whether the residual is measured exactly, by one more exchange.
        seed: Of Ω.
    """

    rank: int
    curvature: CurvatureSettings = CurvatureSettings()
    check_residual: bool = False
    seed: int = 0

    def estimate(
        self, cohort: Cohort, point: Point, state: SolverState
    ) -> tuple[Estimate, SolverState]:
        """Make one exchange of r products, and one that measures v."""
        b, damping = point.outer_gradient, self.curvature.damping
        seed = derive(self.seed, point.round, "tau_1")
        sketched = SketchedSystem(self.rank, seed, 0, 0, COLUMNS)
        bare = replace(self.curvature, damping=0.0)
        scalars = scalars_of(bare, sketched)
        answers = cohort.ask(Request("sketch", point.round, point.arrays(), scalars))
        eye = torch.eye(self.rank, dtype=b.dtype, device=b.device)
        omega = sketched.embedding(len(b)).transpose_apply(eye)
        U, values = eigenpairs(answers.mean("sketch").double(), omega.double())
        within = U.T @ b.double()
        tail = float(values[-1]) + damping
        outside = b.double() - U @ within
        inside = U @ (within / (values + damping))
        v = (inside + outside / tail if tail > 0.0 else inside).to(b)
        witness = Witness(derive(self.seed, point.round, "residual"), damping)
        arrays: dict[str, Payload] = {"v": v}
        judge = Judge.of(witness, b)
        asked = cohort.ask(measure_request(point, arrays, self.curvature, witness))
        seen = judge.measured(judge.product(asked))
        v, residual = seen.scale * v, seen.least
        if self.check_residual:
            residual = exact_residual(cohort, point, v, self.curvature)
        estimate = Estimate(
            v=v,
            residual=residual,
            residual_is_exact=self.check_residual,
            iterations=1,
            direction_arrays={**point.arrays(y_is_known=True), "v": v},
            usable=bool(v.any()),
            events=answers.events + asked.events,
        )
        return estimate, replace(state, v=v)


def eigenpairs(Y: Tensor, omega: Tensor) -> tuple[Tensor, Tensor]:
    """Return (U, Λ) of Y (ΩᵀY)⁻¹ Yᵀ, Λ descending and positive, for Y = H Ω in float64."""
    shift = torch.finfo(Y.dtype).eps * len(Y) ** 0.5 * float(Y.norm())
    shifted = Y + shift * omega
    core = omega.T @ shifted
    core = 0.5 * (core + core.T)
    values, vectors = torch.linalg.eigh(core)
    kept = values > 1e-12 * values.max()
    if not bool(kept.any()):
        return Y.new_zeros(len(Y), 1), Y.new_zeros(1)
    half = shifted @ (vectors[:, kept] / values[kept].sqrt())
    U, singular, _ = torch.linalg.svd(half, full_matrices=False)
    return U, (singular.square() - shift).clamp(min=0.0)


@dataclass(frozen=True)
class RankKeys(Keys):
    """The size of the approximation."""

    table: ClassVar[str] = "solver"
    rank: int = key(10, "products that a client makes per round for the Nyström sketch", low=1)


def build(settings: Settings, context: BuildContext) -> Nystrom:
    """Build it from its keys."""
    rank = settings[RankKeys].rank
    if rank > context.length:
        raise ConfigError(f"rank is {rank} but there are {context.length} parameters; lower rank")
    check = settings[ResidualKeys].check_residual
    return Nystrom(rank, curvature_of(settings), check, context.seed)


NYSTROM = EstimatorRow(
    "beyond the paper: a Nyström sketch of the matrix, one exchange, d x rank numbers up",
    (RankKeys, CurvatureKeys, ResidualKeys),
    build,
    asks="sketch measure product",
)
