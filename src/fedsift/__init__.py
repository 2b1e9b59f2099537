"""fedsift: federated learning with labels that cannot all be trusted.

import fedsift as fs
federation = fs.simulate(model, clients=[(X1, y1), ...], validation=(Xv, yv))
result = fs.fit(federation, rounds=60, seed=0)
result.label_issues(client=0)
"""

from fedsift.algorithms import LocalSteps, OuterStep
from fedsift.errors import FedsiftError, InputError, RunError
from fedsift.experiment.api import Result, Simulation, Solution, fit, simulate, solve
from fedsift.federation import LocalFederation
from fedsift.hypergradient import (
    Constant,
    CurvatureSettings,
    Exact,
    Iterative,
    NonIterative,
    Theorem,
)
from fedsift.problem import LossPair, TensorBatch

__all__ = [
    "Constant",
    "CurvatureSettings",
    "Exact",
    "FedsiftError",
    "InputError",
    "Iterative",
    "LocalFederation",
    "LocalSteps",
    "LossPair",
    "NonIterative",
    "OuterStep",
    "Result",
    "RunError",
    "Simulation",
    "Solution",
    "TensorBatch",
    "Theorem",
    "fit",
    "simulate",
    "solve",
]
