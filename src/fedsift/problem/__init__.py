"""A pair of losses and its derivatives, and the bilevel problems that come with fedsift."""

from fedsift.problem.flat_model import FlatModel
from fedsift.problem.protocol import (
    AnyBatch,
    Batch,
    Composite,
    HasAgreement,
    HasCrossFrom,
    LossPair,
    Poolable,
    Problem,
    Stackable,
    TensorBatch,
    chunks,
    cross_product,
    hessian_product,
    inner_gradient,
    outer_gradients,
)
from fedsift.problem.quadratic import Quadratic, QuadraticClient, mean_client, random_quadratic
from fedsift.problem.reweighting import Reweighting, Samples

__all__ = [
    "AnyBatch",
    "Batch",
    "Composite",
    "FlatModel",
    "HasAgreement",
    "HasCrossFrom",
    "LossPair",
    "Poolable",
    "Problem",
    "Quadratic",
    "QuadraticClient",
    "Reweighting",
    "Samples",
    "Stackable",
    "TensorBatch",
    "chunks",
    "cross_product",
    "hessian_product",
    "inner_gradient",
    "mean_client",
    "outer_gradients",
    "random_quadratic",
]
