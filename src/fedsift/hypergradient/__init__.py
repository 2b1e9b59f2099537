"""Estimators of the hypergradient: iterative (Alg. 2), non-iterative (Alg. 3), exact."""

from fedsift.hypergradient.estimate import (
    CurvatureSettings,
    Estimate,
    Estimator,
    Point,
    SolverState,
)
from fedsift.hypergradient.exact import Exact
from fedsift.hypergradient.iterative import Constant, Iterative, Theorem
from fedsift.hypergradient.non_iterative import SYSTEMS, NonIterative
from fedsift.hypergradient.solver_step import Guard

__all__ = [
    "SYSTEMS",
    "Constant",
    "CurvatureSettings",
    "Estimate",
    "Estimator",
    "Exact",
    "Guard",
    "Iterative",
    "NonIterative",
    "Point",
    "SolverState",
    "Theorem",
]
