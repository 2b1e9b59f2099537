"""Theorem 3: the mean squared hypergradient of Algorithm 1 over K rounds, against K^−½.

    η = 1 / (2 L_h √(K+1)),   E‖∇h(x_k)‖² ≤ 32 L_h (h(x_0) − h*) / √K + ...     k drawn from 0..K−1

| estimator | as the theorem has it       | here                                                 |
|-----------|-----------------------------|------------------------------------------------------|
| iterative | I = O(√K)                   | I = √K, Top-k of d / 5 in Eq. 12, Theorem 1's steps  |
| non-iter  | ε = O(K^−¼), so r_1 = O(√K) | r_1 = 4 √K, r_2 = 2 r_1                              |

``bound`` is the first term alone, the part of the right-hand side without the estimator's error:
what is below it is below the whole. ∇h is exact. Local steps (T = 5) are corrected for drift, which
the theorem leaves out (``drift.py``); ``iterative, plain steps`` shows what it does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

import torch

from fedsift.algorithms import Algorithm, CommFedBiO, LocalSteps, OuterStep, Server, ServerState
from fedsift.compress import TopK
from fedsift.experiment.theory.checks import Check, slopes
from fedsift.federation import LocalFederation, WithoutDrift
from fedsift.hypergradient import Estimator, Iterative, NonIterative, Theorem
from fedsift.problem import Quadratic, QuadraticClient, mean_client, random_quadratic

LENGTH, CONDITION, SHIFT, GAMMA = 20, 4.0, 40.0, 0.2
MARGIN = 0.05


@dataclass(frozen=True)
class Size:
    """How much is measured: problems, and numbers of rounds K."""

    draws: int
    rounds: tuple[int, ...]


SIZES = {"quick": Size(1, (16, 32)), "paper": Size(3, (16, 32, 64))}
Make = Callable[[int, int], Estimator]  # K, seed


def iterative(rounds: int, seed: int) -> Estimator:
    """Return Algorithm 2 with I = √K."""
    compressor, steps = TopK(LENGTH, LENGTH // 5), Theorem(1.0, SHIFT)
    count = math.isqrt(rounds)
    return Iterative.of(
        compressor, "gradient", iterations=count, schedule=steps, warm_start=False, seed=seed
    )


def non_iterative(rounds: int, seed: int) -> Estimator:
    """Return Algorithm 3 with r_1 = 4 √K."""
    r1 = 4 * math.isqrt(rounds)
    return NonIterative(r1, 2 * r1, seed=seed)


VARIANTS: dict[str, tuple[Make, bool]] = {
    "iterative": (iterative, True),
    "non-iter": (non_iterative, True),
    "iterative, plain steps": (iterative, False),
}


def measure(scale: str, variants: dict[str, tuple[Make, bool]] = VARIANTS) -> dict[str, Any]:
    """Measure all variants; ``variants`` are others in tests."""
    size, series, checks = SIZES[scale], [], []
    for name, (make, corrected) in variants.items():
        drawn = [
            [_run(seed, count, make, corrected) for count in size.rounds]
            for seed in range(size.draws)
        ]
        values = [[value for value, _ in draw] for draw in drawn]
        bounds = [[limit for _, limit in draw] for draw in drawn]
        series.append(
            {
                "variant": name,
                "rounds": list(size.rounds),
                "median": [median(column) for column in zip(*values, strict=True)],
                "lowest": [min(column) for column in zip(*values, strict=True)],
                "highest": [max(column) for column in zip(*values, strict=True)],
                "bound": [median(column) for column in zip(*bounds, strict=True)],
                "within": all(
                    v <= b
                    for a, c in zip(values, bounds, strict=True)
                    for v, b in zip(a, c, strict=True)
                ),
                "slope": slopes(size.rounds, values),
            }
        )
        checks.append(_check(series[-1], claimed=corrected))
    return {"series": series, "checks": [check.to_json() for check in checks]}


def _run(seed: int, rounds: int, make: Make, corrected: bool) -> tuple[float, float]:
    """Return the mean of ‖∇h(x_k)‖² over K rounds, and the bound, both over ‖∇h(x_0)‖²."""
    problem, clients = random_quadratic(
        clients=3, length=LENGTH, outer_length=4, condition=CONDITION, ridge=0.5, seed=seed
    )
    mean_one, smooth = mean_client(clients), smoothness(problem, mean_client(clients))
    federation = LocalFederation.of(problem, clients)
    outer = OuterStep(1 / (2 * smooth * math.sqrt(rounds + 1)), "gradient")
    algorithm: Algorithm = CommFedBiO(make(rounds, seed), LocalSteps(5, GAMMA, 0), outer)
    algorithm = WithoutDrift(algorithm) if corrected else algorithm
    server, start = Server(problem, None), problem.initial_x(None)
    # The theorem takes y for y_x: it starts there.
    state = ServerState(problem.inner_solution(mean_one, start), start)
    squares = []
    for k in range(rounds):
        assert state.x is not None
        squares.append(float(problem.hypergradient(mean_one, state.x).square().sum()))
        _, state = algorithm.round(federation, server, state, k)
    gap = value(problem, mean_one, start) - value(
        problem, mean_one, problem.outer_solution(mean_one)
    )
    return mean(squares) / squares[0], 32 * smooth * gap / math.sqrt(rounds) / squares[0]


def smoothness(problem: Quadratic, pooled: QuadraticClient) -> float:
    """Return L_h."""
    M = torch.linalg.solve(pooled.A, pooled.B)
    return problem.ridge + float(torch.linalg.matrix_norm(M, 2)) ** 2


def value(problem: Quadratic, pooled: QuadraticClient, x: torch.Tensor) -> float:
    """Return h(x)."""
    return float(problem.outer_loss(x, problem.inner_solution(pooled, x), None))


def _check(found: dict[str, Any], claimed: bool) -> Check:
    fell = found["slope"]
    first, last = found["median"][0], found["median"][-1]
    return Check(
        f"mean ‖∇h(x_k)‖² over K rounds, {found['variant']}",
        f"K^-0.50, at most {found['bound'][-1]:.2g} at the end",
        f"{first:.2g} to {last:.2g}, K^{fell['mean']:.2f} ± {fell['deviation']:.2f}",
        found["within"] and fell["mean"] <= -0.5 + MARGIN if claimed else None,
    )
