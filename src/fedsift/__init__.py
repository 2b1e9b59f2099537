"""fedsift: federated learning with labels that cannot all be trusted.

import fedsift as fs
federation = fs.simulate(model, {"north": (X1, y1), ...}, validation=(Xv, yv))
result = fs.fit(federation, rounds=60, seed=0)
result.label_issues("north")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedsift.algorithms import AtClients, CommFedBiO, LocalSteps, OuterStep
    from fedsift.compress import CountSketch, Identity, TopK
    from fedsift.data.reading import Samples, read
    from fedsift.errors import FedsiftError, InputError, RunError
    from fedsift.experiment.api import fit
    from fedsift.experiment.diagnosing import diagnose
    from fedsift.experiment.result import Result
    from fedsift.experiment.saving import load
    from fedsift.experiment.settings import FitSettings
    from fedsift.experiment.simulation import Simulation, simulate
    from fedsift.experiment.solve import Solution, solve
    from fedsift.federation import LocalFederation
    from fedsift.hypergradient import (
        Constant,
        CurvatureSettings,
        Exact,
        Iterative,
        NonIterative,
        Theorem,
    )
    from fedsift.problem import (
        ClassWeights,
        ClientWeights,
        GroupL2,
        HyperRepresentation,
        LabelledBatch,
        LossPair,
        MinMax,
        OwnProblem,
        Personalised,
        Reweighting,
        TensorBatch,
        without_batch_norm,
    )

__all__ = [
    "AtClients",
    "ClassWeights",
    "ClientWeights",
    "CommFedBiO",
    "Constant",
    "CountSketch",
    "CurvatureSettings",
    "Exact",
    "FedsiftError",
    "FitSettings",
    "GroupL2",
    "HyperRepresentation",
    "Identity",
    "InputError",
    "Iterative",
    "LabelledBatch",
    "LocalFederation",
    "LocalSteps",
    "LossPair",
    "MinMax",
    "NonIterative",
    "OuterStep",
    "OwnProblem",
    "Personalised",
    "Result",
    "Reweighting",
    "RunError",
    "Samples",
    "Simulation",
    "Solution",
    "TensorBatch",
    "Theorem",
    "TopK",
    "diagnose",
    "fit",
    "load",
    "read",
    "simulate",
    "solve",
    "without_batch_norm",
]

_HOMES = (
    *("errors", "problem", "compress", "algorithms", "hypergradient", "federation"),
    *("data.reading", "experiment.api", "experiment.result", "experiment.saving"),
    *("experiment.settings", "experiment.simulation", "experiment.solve", "experiment.diagnosing"),
)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: torch takes seconds to import."""
    if name in __all__:
        for home in _HOMES:
            module = import_module(f"fedsift.{home}")
            if hasattr(module, name):
                globals()[name] = getattr(module, name)
                return globals()[name]
    raise AttributeError(f"module 'fedsift' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
