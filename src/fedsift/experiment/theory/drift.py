"""Client drift: where several local steps at unlike clients end, with a closed form.

    y_∞(x) = fixed point of y -> Σ_m w_m [P_m y + (I − P_m) A_m⁻¹ (B_m x + c_m)]
    P_m    = (I − γ A_m)^T
    x_∞    solves  ρ x + Bᵀ A⁻¹ (y_∞(x) − t) = 0

Theorem 3 takes y for y_x and has no term for the drift: with T = 1 or equal clients y_∞ = y_x, else
∇h(x_∞) is not zero, however many rounds are done. With control variates (``correct_drift``,
``federation/drift.py``) it is. Reported is ‖∇h(x_K)‖ / ‖∇h(x_0)‖, of the exact ∇h; v is exact too.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor

from fedsift.algorithms import Algorithm, CommFedBiO, LocalSteps, OuterStep, Server, ServerState
from fedsift.experiment.theory.checks import Check
from fedsift.experiment.theory.known import Known
from fedsift.federation import LocalFederation, WithoutDrift
from fedsift.problem import Quadratic, QuadraticClient, mean_client, random_quadratic

STEPS = (1, 5, 20)
GAMMA, ETA = 0.05, 1.0
NEAR, SOLVED = 0.05, 1e-3


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    draws: int
    rounds: int


SIZES = {"quick": Size(1, 40), "paper": Size(3, 60)}


def measure(scale: str, corrected: type[WithoutDrift] = WithoutDrift) -> dict[str, Any]:
    """Measure plain and corrected local steps; ``corrected`` is another one in tests."""
    size, series, checks = SIZES[scale], [], []
    for count in STEPS:
        for correct in (False, True):
            layer = corrected if correct else None
            drawn = [_run(seed, count, size.rounds, layer) for seed in range(size.draws)]
            middle = [median(column) for column in zip(*(path for path, _ in drawn), strict=True)]
            limits = [limit for _, limit in drawn]
            ends = [path[-1] for path, _ in drawn]
            series.append(
                {
                    "local_steps": count,
                    "corrected": correct,
                    "median": middle,
                    "ends": ends,
                    "limits": [0.0 if correct else limit for limit in limits],
                }
            )
            checks.append(_check(series[-1]))
    return {"series": series, "checks": [check.to_json() for check in checks]}


def _run(
    seed: int, count: int, rounds: int, corrected: type[WithoutDrift] | None
) -> tuple[list[float], float]:
    """Return ‖∇h(x_k)‖ / ‖∇h(x_0)‖ of every round, and what the closed form says of the last."""
    problem, clients = random_quadratic(clients=5, length=20, outer_length=4, seed=seed)
    mean = mean_client(clients)
    federation = LocalFederation.of(problem, clients)
    outer = OuterStep(_outer_lr(problem, mean), "gradient")
    algorithm: Algorithm = CommFedBiO(Known(mean.A), LocalSteps(count, GAMMA, 0), outer)
    algorithm = algorithm if corrected is None else corrected(algorithm)
    server = Server(problem, None)
    start = problem.initial_x(None)
    state = ServerState(torch.zeros_like(problem.target), start)
    size, path = float(problem.hypergradient(mean, start).norm()), []
    for k in range(rounds):
        _, state = algorithm.round(federation, server, state, k)
        assert state.x is not None
        path.append(float(problem.hypergradient(mean, state.x).norm()) / size)
    x = limit_of(problem, clients, count)
    return path, float(problem.hypergradient(mean, x).norm()) / size


def _outer_lr(problem: Quadratic, mean: QuadraticClient) -> float:
    """Return η / L_h."""
    M = torch.linalg.solve(mean.A, mean.B)
    return ETA / (problem.ridge + float(torch.linalg.matrix_norm(M, 2)) ** 2)


def limit_of(problem: Quadratic, clients: list[QuadraticClient], count: int) -> Tensor:
    """Return x_∞."""
    mean, eye = mean_client(clients), torch.eye(len(problem.target), dtype=torch.float64)
    contraction, toward, offset = (
        torch.zeros_like(eye),
        torch.zeros_like(mean.B),
        torch.zeros_like(mean.c),
    )
    for client in clients:
        share = client.num_samples / mean.num_samples
        P = torch.linalg.matrix_power(eye - GAMMA * client.A, count)
        rest = share * (eye - P) @ torch.linalg.inv(client.A)
        contraction, toward, offset = (
            contraction + share * P,
            toward + rest @ client.B,
            offset + rest @ client.c,
        )
    per_x, at_zero = (torch.linalg.solve(eye - contraction, part) for part in (toward, offset))
    back = torch.linalg.solve(mean.A, mean.B).T  # Bᵀ A⁻¹
    left = problem.ridge * torch.eye(problem.outer_length, dtype=torch.float64) + back @ per_x
    solved: Tensor = torch.linalg.solve(left, back @ (problem.target - at_zero))
    return solved


def _check(found: dict[str, Any]) -> Check:
    ends, limits, correct = found["ends"], found["limits"], found["corrected"]
    way = "corrected" if correct else "plain"
    worst = max(abs(end - limit) for end, limit in zip(ends, limits, strict=True))
    allowed = SOLVED + NEAR * max(limits)
    return Check(
        f"‖∇h‖ over its start after the last round, T = {found['local_steps']}, {way}",
        f"{median(limits):.2g}" if median(limits) > 1e-9 else "0",
        f"{median(ends):.2g}",
        worst <= allowed,
    )
