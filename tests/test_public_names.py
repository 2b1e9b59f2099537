"""The public names: what is added or removed here is a change of the interface."""

import pytest

import fedsift

NAMES = [
    *("Constant", "CurvatureSettings", "Exact", "FedsiftError", "FitSettings", "InputError"),
    "Iterative",
    *("LocalFederation", "LocalSteps", "LossPair", "NonIterative", "OuterStep", "Result"),
    *("RunError", "Samples", "Simulation", "Solution", "TensorBatch", "Theorem", "fit", "load"),
    *("read", "simulate", "solve", "without_batch_norm"),
]


def test_public_names_are_pinned():
    assert sorted(fedsift.__all__) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_public_name_explains_itself(name):
    assert getattr(fedsift, name).__doc__
