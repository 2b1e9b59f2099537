"""Theorem 2: ‖S_1ᵀω̂ − v*‖ of Algorithm 3 against what its proof allows.

    ‖S_1ᵀω̂ − v*‖ ≤ (1 + ε_2) / (1 − ε_2) · ‖H S_1ᵀS_1 v* − H v*‖ / μ

| symbol | here                                                                                 |
|--------|--------------------------------------------------------------------------------------|
| ε_1    | ‖H S_1ᵀS_1 v* − H v*‖ / (‖v*‖ ‖H‖_F), of the S_1 that was drawn: O(r_1^−½)             |
| ε_2    | how far S_2 changes lengths in the span of [H S_1ᵀ, ∇_yF]: max |σ² − 1| there          |
| floor  | the distance of v* from the span of S_1ᵀ: no ω̂ can be nearer                          |

The corollary gives ε_1 = O(r_1^−½), so that the bound falls with this slope. The error cannot
fall below the floor, about √(1 − r_1 / d) for a dense v*, whatever the stable rank.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor

from fedsift.compress import SparseEmbedding
from fedsift.experiment.theory.case import Case
from fedsift.experiment.theory.checks import Check, slopes
from fedsift.hypergradient import NonIterative
from fedsift.problem.shaped_quadratic import Shape
from fedsift.randomness import derive

LENGTH = 60
SYSTEMS = {
    "stable rank 30": Shape(LENGTH, 3.0, stable_rank=30.0),
    "stable rank 8": Shape(LENGTH, 3.0, stable_rank=8.0),
}
MARGIN = 0.05


@dataclass(frozen=True)
class Size:
    """How much is measured: sketches of one system, and their columns r_1; r_2 = r_1²."""

    draws: int
    r1: tuple[int, ...]


SIZES = {"quick": Size(3, (6, 24)), "paper": Size(5, (6, 12, 24, 48))}
Solve = Callable[[Case, int, int, int], Tensor]  # case, r_1, r_2, seed -> v


def by_algorithm(case: Case, r1: int, r2: int, seed: int) -> Tensor:
    """Return S_1ᵀω̂ of Algorithm 3."""
    return NonIterative(r1, r2, seed=seed).solve(case.cohort, case.point).v


def measure(scale: str, solve: Solve = by_algorithm) -> dict[str, Any]:
    """Measure both systems; ``solve`` is another one in tests."""
    size, series, checks = SIZES[scale], [], []
    for name, shape in SYSTEMS.items():
        case = Case.of(shape, 0)
        drawn = [[_one(case, r, seed, solve) for r in size.r1] for seed in range(size.draws)]
        columns = list(zip(*drawn, strict=True))
        errors = [[one["error"] for one in same] for same in columns]
        within = [one["error"] <= one["bound"] for same in columns for one in same]
        above = [one["error"] >= (1 - 1e-9) * one["floor"] for same in columns for one in same]
        series.append(
            {
                "system": name,
                "r1": list(size.r1),
                "median": [median(same) for same in errors],
                "lowest": [min(same) for same in errors],
                "highest": [max(same) for same in errors],
                "bound": [median(one["bound"] for one in same) for same in columns],
                "floor": [median(one["floor"] for one in same) for same in columns],
                "epsilon": [median(one["epsilon"] for one in same) for same in columns],
                "epsilon_slope": slopes(
                    size.r1, [[one["epsilon"] for one in draw] for draw in drawn]
                ),
                "slope": slopes(size.r1, [[one["error"] for one in draw] for draw in drawn]),
                "within": sum(within),
                "above": sum(above),
                "of": len(within),
            }
        )
        checks += _checks(series[-1])
    return {"series": series, "checks": [check.to_json() for check in checks]}


def _one(case: Case, r1: int, seed: int, solve: Solve) -> dict[str, float]:
    """Return the error of one pair of sketches, and what the proof's two steps allow for them."""
    d, v, H, r2 = len(case.v), case.v, case.matrix, r1 * r1
    # The embeddings that NonIterative draws in round 0.
    S1 = SparseEmbedding(r1, d, derive(seed, 0, "tau_1")).dense().to(v)
    S2 = SparseEmbedding(r2, d, derive(seed, 0, "tau_2")).dense().to(v)
    missed = float((H @ (S1.T @ (S1 @ v)) - H @ v).norm())
    basis = _basis(torch.cat((H @ S1.T, case.point.outer_gradient[:, None]), 1))
    epsilon2 = float((torch.linalg.svdvals(S2 @ basis) ** 2 - 1).abs().max())
    mu = float(torch.linalg.eigvalsh(H)[0])
    factor = (1 + epsilon2) / (1 - epsilon2) if epsilon2 < 1 else math.inf
    span = _basis(S1.T)
    return {
        "error": case.error(solve(case, r1, r2, seed)),
        "bound": factor * missed / mu / float(v.norm()),
        "floor": float((v - span @ (span.T @ v)).norm() / v.norm()),
        "epsilon": missed / float(v.norm() * torch.linalg.matrix_norm(H)),
    }


def _basis(columns: Tensor) -> Tensor:
    """Return an orthonormal basis of their span."""
    U, sizes, _ = torch.linalg.svd(columns, full_matrices=False)
    basis: Tensor = U[:, sizes > 1e-10 * sizes[0]]
    return basis


def _checks(found: dict[str, Any]) -> list[Check]:
    name, fell = found["system"], found["epsilon_slope"]
    ends = f"{found['median'][0]:.2g} to {found['median'][-1]:.2g}"
    return [
        Check(
            f"‖S₁ᵀω̂ − v*‖ within what the proof allows for the sketches drawn, {name}",
            f"all of {found['of']}",
            f"{found['within']}; error {ends}",
            found["within"] == found["of"],
        ),
        Check(
            f"no nearer than the span of S₁ᵀ allows, {name}",
            f"all of {found['of']}",
            str(found["above"]),
            found["above"] == found["of"],
        ),
        Check(
            f"ε₁ of S₁ = O(r₁^−½), {name}",
            "r₁^-0.50",
            f"r₁^{fell['mean']:.2f} ± {fell['deviation']:.2f}",
            abs(fell["mean"] + 0.5) <= MARGIN + fell["deviation"],
        ),
    ]
