"""A quadratic federation, a point off its inner solution, and v* there."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedsift.federation import LocalFederation
from fedsift.hypergradient import Estimator, Point, SolverState
from fedsift.messages import Cohort
from fedsift.problem import Quadratic, QuadraticClient, mean_client
from fedsift.problem.shaped_quadratic import Shape, shaped_quadratic


@dataclass(frozen=True)
class Case:
    """All of it, in float64."""

    problem: Quadratic
    clients: list[QuadraticClient]
    cohort: Cohort
    point: Point
    v: Tensor

    @classmethod
    def of(cls, shape: Shape, seed: int) -> Case:
        """Draw one of a shape."""
        return cls.made(shaped_quadratic(shape, seed))

    @classmethod
    def made(cls, drawn: tuple[Quadratic, list[QuadraticClient]]) -> Case:
        """Take what was drawn, at y = 0, where ∇_y F is the target's negative."""
        problem, clients = drawn
        federation = LocalFederation.of(problem, clients)
        y = torch.zeros_like(problem.target)
        point = Point(y, y - problem.target, 0, problem.initial_x(None))
        exact = problem.v_solution(mean_client(clients), y)
        return cls(problem, clients, Cohort(federation, tuple(federation.sizes)), point, exact)

    @property
    def matrix(self) -> Tensor:
        """The matrix of the system."""
        return mean_client(self.clients).A

    def error(self, v: Tensor) -> float:
        """Return ‖v − v*‖ / ‖v*‖."""
        return float((v - self.v).norm() / self.v.norm())

    def solved(self, solver: Estimator) -> Tensor:
        """Return the v of an estimator."""
        return solver.estimate(self.cohort, self.point, SolverState())[0].v
