"""The public names: what is added or removed here is a change of the interface."""

import pytest

import fedsift

NAMES = [
    *("AtClients", "ClassWeights", "ClientWeights", "CommFedBiO", "Constant", "CountSketch"),
    *("CurvatureSettings", "Exact", "FedsiftError", "FitSettings", "GroupL2"),
    "HyperRepresentation",
    *("Identity", "InputError", "Iterative", "LabelledBatch", "LocalFederation"),
    *(
        "LocalSteps",
        "LossPair",
        "MinMax",
        "NonIterative",
        "OuterStep",
        "OwnProblem",
        "Personalised",
        "Result",
    ),
    *("Reweighting", "RunError", "Samples", "Simulation", "Solution", "TensorBatch"),
    *("Theorem", "TopK", "diagnose", "fit", "load", "read", "simulate", "solve"),
    *("without_batch_norm",),
]


def test_public_names_are_pinned():
    assert sorted(fedsift.__all__) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_public_name_explains_itself(name):
    assert getattr(fedsift, name).__doc__
