"""Algorithm 3: solve one sketched linear system.

    ω̂ = argmin_ω ‖S_2 (∇²_yy G) S_1ᵀ ω − S_2 ∇_y F‖,     v = S_1ᵀ ω̂

Clients send S_2 ∇²_yy g_m S_1ᵀ (r_2 × r_1 numbers, r_1 Hessian products each); the server sends ω̂
back, and each client makes v and the cross product ∇²_xy g_m v itself, so neither v nor a
d-dimensional vector travels. A shared x of at most r_2 numbers is dealt with as in line 4: clients
send ∇²_xy g_m S_1ᵀ along, and there is one exchange less (``client/cross_sketch.py``).

Seeds τ_1, τ_2 are drawn anew every round unless ``fresh_seeds`` is off: v is sought in the span of
S_1ᵀ, and a new subspace each round averages its error out.

``system="galerkin"`` is ours: S_1 is on both sides, (S_1 (∇²_yy G) S_1ᵀ) ω̂ = S_1 ∇_y F. With
the Gauss-Newton matrix a client then needs r_1 forward passes and none back; v is the best one in
the span of S_1ᵀ, in the norm of the matrix.

The residual of the sketched system says little of v: ω̂ is fitted to it (with Galerkin it is zero by
construction). So clients are asked once more, for a small independent sketch of ∇²_yy g_m v
(``residual.py``): r_1 numbers down and 320 up, and v is shortened, or not used, where it is not
surely better than v = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedsift.compress import Payload, RateKeys, SparseEmbedding
from fedsift.errors import ConfigError, InputError
from fedsift.hypergradient.estimate import (
    CurvatureSettings,
    Estimate,
    Point,
    SolverState,
)
from fedsift.hypergradient.products import exact_residual, measure_request
from fedsift.hypergradient.residual import Judge, Witness
from fedsift.hypergradient.settings import (
    CurvatureKeys,
    EstimatorRow,
    ResidualKeys,
    curvature_of,
)
from fedsift.keys import BuildContext, Keys, Settings, key
from fedsift.messages import Answers, Cohort, Request, scalars_of
from fedsift.randomness import derive

SYSTEMS = ("least-squares", "galerkin")
COLUMNS = "columns"  # of ``nystrom.py``: nothing on the left of the matrix


@dataclass(frozen=True)
class Whole:
    """The identity where an embedding may stand."""

    rows: int

    def apply(self, A: Tensor) -> Tensor:
        """Return A."""
        return A


@dataclass(frozen=True)
class SubspaceSeed:
    """S_1, by its rows and its seed τ_1: enough to make v = S_1ᵀ ω."""

    r1: int
    seed1: int

    def embedding(self, length: int) -> SparseEmbedding:
        """Return S_1 for d = ``length``."""
        return SparseEmbedding(self.r1, length, self.seed1)


@dataclass(frozen=True)
class SketchedSystem(SubspaceSeed):
    """Both sides of the sketched system, by their rows and seeds."""

    r2: int
    seed2: int
    system: str = SYSTEMS[0]

    def left(self, length: int) -> SparseEmbedding | Whole:
        """Return what is on the left of the matrix: S_2, S_1 for Galerkin, or nothing."""
        if self.system == COLUMNS:
            return Whole(length)
        if self.system == "galerkin":
            return self.embedding(length)
        return SparseEmbedding(self.r2, length, self.seed2)


@dataclass(frozen=True, eq=False)
class SubspaceSolution:
    """ω̂, v = S_1ᵀ ω̂ as it was solved for, and how; ``both``: the replies hold ∇²_xy G S_1ᵀ too."""

    omega: Tensor
    v: Tensor
    seed1: int
    rank: int
    finite: bool
    answers: Answers
    both: bool


@dataclass(frozen=True)
class NonIterative:
    """Algorithm 3 with sparse embeddings of r_1 and r_2 rows.

    Attributes:
        r1: Columns of the sketched system.
        r2: Its rows, for ``least-squares``; at least r1.
        curvature: Which matrix is used.
        system: ``"least-squares"``, the paper's, or ``"galerkin"``, ours, with r1 only.
        fresh_seeds: Whether the sketches are drawn anew in every round.
        check_residual: Whether the residual is measured exactly, by one more exchange.
        seed: The seed of the sketches.

    Examples:
        >>> import fedsift as fs
        >>> fs.NonIterative.rows_at_rate(length=20_000, rate=100)
        (10, 20)
    """

    r1: int
    r2: int
    curvature: CurvatureSettings = CurvatureSettings()
    system: str = "least-squares"
    fresh_seeds: bool = True
    check_residual: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.system not in SYSTEMS:
            raise InputError(f"the system '{self.system}' is unknown; use one of {SYSTEMS}")
        if self.r1 < 1 or self.r2 < self.r1:
            raise InputError(
                f"r1 is {self.r1} and r2 is {self.r2}; the sketched system needs r2 >= r1 >= 1"
            )

    @staticmethod
    def rows_at_rate(length: int, rate: float, ratio: int = 2) -> tuple[int, int]:
        """Choose (r_1, r_2) with r_2 = ratio · r_1 and r_1 r_2 ≈ d / rate numbers sent."""
        r1 = max(1, math.isqrt(int(length / rate / ratio)))
        return r1, ratio * r1

    def estimate(
        self, cohort: Cohort, point: Point, state: SolverState
    ) -> tuple[Estimate, SolverState]:
        """Make one exchange, one least-squares solve, and one exchange that measures it."""
        b = point.outer_gradient
        found = self.solve(cohort, point)
        omega, v, answers, both = found.omega, found.v, found.answers, found.both
        seed1, finite = found.seed1, found.finite
        subspace = scalars_of(SubspaceSeed(self.r1, seed1))
        arrays: dict[str, Payload] = {**point.arrays(y_is_known=True), "omega": omega}
        witness = Witness(derive(self.seed, point.round, "residual"), self.curvature.damping)
        request = measure_request(point, {"omega": omega}, self.curvature, witness, subspace)
        judge = Judge.of(witness, b)
        seen = judge.measured(judge.product(cohort.ask(request)))
        v, omega, residual = seen.scale * v, seen.scale * omega, seen.least
        if self.check_residual:
            residual = exact_residual(cohort, point, v, self.curvature)
        advice = _advice(found.rank, self.r1, finite)
        return (
            Estimate(
                v=v,
                residual=residual,
                residual_is_exact=self.check_residual,
                iterations=1,
                direction_arrays={**arrays, "omega": omega},
                direction_scalars=subspace,
                usable=finite and seen.scale > 0.0,
                advice=advice,
                events=answers.events if advice is None else (*answers.events, advice),
                cross=answers.mean("cross") @ omega if both else None,
            ),
            state,
        )

    def solve(self, cohort: Cohort, point: Point) -> SubspaceSolution:
        """Make the one exchange of Algorithm 3 and solve the sketched system, as in the listing."""
        b = point.outer_gradient
        era = point.round if self.fresh_seeds else 0
        seed1, seed2 = (derive(self.seed, era, name) for name in ("tau_1", "tau_2"))
        sketched = SketchedSystem(self.r1, seed1, self.r2, seed2, self.system)
        scalars = scalars_of(self.curvature, sketched)
        both = point.x is not None and point.x.numel() <= self.r2
        action = "sketch-both" if both else "sketch"
        answers = cohort.ask(Request(action, point.round, point.arrays(), scalars))
        right = sketched.left(len(b)).apply(b)
        # gelsd (by SVD) gives the least-norm ω where the system is rank-deficient.
        system = answers.mean("sketch").double().cpu()
        solved = torch.linalg.lstsq(system, right.double().cpu(), driver="gelsd")
        omega = solved.solution.to(b)
        finite = bool(torch.isfinite(omega).all())
        if not finite:
            omega = torch.zeros_like(omega)
        v = sketched.embedding(len(b)).transpose_apply(omega)
        return SubspaceSolution(omega, v, seed1, int(solved.rank), finite, answers, both)


def _advice(rank: int, r1: int, finite: bool) -> str | None:
    if not finite:
        return "the sketched Hessian has a number that is not finite; lower inner_lr or add damping"
    if rank < r1:
        return (
            f"the sketched system has rank {rank} of {r1}; raise the damping, r2 or the curvature "
            "batch"
        )
    return None


@dataclass(frozen=True)
class SystemKeys(Keys):
    """The sketched system of Algorithm 3."""

    table: ClassVar[str] = "solver"
    system: str = key(
        "least-squares",
        "which sketched system; least-squares: the paper's; galerkin: ours, with r1 only",
        choices=lambda: SYSTEMS,
    )
    r1: int = key(0, "columns of the sketched system; 0: from the rate", low=0)
    r2: int = key(0, "rows of the sketched system, for least-squares; 0: 2 r1", low=0)
    fresh_seeds: bool = key(True, "draw the sketches of the system anew in every round")


def build(settings: Settings, context: BuildContext) -> NonIterative:
    """Build Algorithm 3 from its keys."""
    own = settings[SystemKeys]
    ratio = 1 if own.system == "galerkin" else 2
    r1, r2 = NonIterative.rows_at_rate(context.length, settings[RateKeys].rate, ratio)
    r1 = own.r1 or r1
    r2 = own.r2 or (ratio * r1 if own.r1 else r2)
    if r1 > context.length:
        raise ConfigError(f"r1 is {r1} but the model has {context.length} parameters; lower r1")
    return NonIterative(
        r1,
        r2,
        curvature_of(settings),
        own.system,
        fresh_seeds=own.fresh_seeds,
        check_residual=settings[ResidualKeys].check_residual,
        seed=context.seed,
    )


NON_ITER = EstimatorRow(
    "Comm-FedBiO, Algorithm 3",
    (RateKeys, SystemKeys, CurvatureKeys, ResidualKeys),
    build,
    asks="sketch measure product",
)
