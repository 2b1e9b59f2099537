"""Bilevel problems that come with fedsift."""

from fedsift.problems.flat_model import FlatModel
from fedsift.problems.quadratic import Quadratic, QuadraticClient, mean_client, random_quadratic
from fedsift.problems.reweighting import Reweighting, Samples

__all__ = [
    "FlatModel",
    "Quadratic",
    "QuadraticClient",
    "Reweighting",
    "Samples",
    "mean_client",
    "random_quadratic",
]
