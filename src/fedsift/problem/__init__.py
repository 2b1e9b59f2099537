"""A pair of losses and its derivatives, and the bilevel problems that come with fedsift.

protocol         what a problem is and what it may offer
derivatives      gradients, Hessian and cross products of any two losses
tangents         J v in forward or reverse mode
curvature        Hessian and Gauss-Newton matrix as operators; gradient_graph: from one kept graph
sgd              local steps, of one client or of several at once
inputs           inputs that need not be in memory; batches: with their labels
sample_losses    losses of single samples, agreement with their labels
robust_losses    losses that wrong labels disturb less, the model of a problem under one
flat_model       any ``nn.Module`` as a function of a flat vector; stacked_model: several at once
batch_norm       frozen statistics, or GroupNorm in its place
run_modes        how a module is run and differentiated; trial: the choice on example inputs
plain_kernels    fused kernels as operations that have all derivatives
failing_layer    which layer fails, or has no derivative
networks         the networks of the experiments
reweighting      noisy labels, the paper's problem; bootstrap: our addition to its loss
mixture          two groups of points, by EM; intrinsic_dimension: of a cloud of points
quadratic        closed-form solutions, for tests
loss_pair        a user's own two losses; trees: x and y that are no vectors
class_weights    a weight per class or per client
group_l2         a learned L2 coefficient per group of parameters
hyper_representation   x a network's body, y its head
min_max          min over x, max over y
"""

from fedsift.problem.batch_norm import without_batch_norm
from fedsift.problem.batches import LabelledBatch, StoredBatch, batch_of
from fedsift.problem.class_weights import ClassWeights, ClientWeights
from fedsift.problem.derivatives import (
    cross_product,
    hessian_product,
    inner_gradient,
    outer_gradients,
    outer_loss_and_gradients,
    outer_value,
)
from fedsift.problem.flat_model import FlatModel
from fedsift.problem.group_l2 import GroupL2
from fedsift.problem.hyper_representation import HyperRepresentation
from fedsift.problem.loss_pair import LossPair, TensorBatch
from fedsift.problem.min_max import MinMax
from fedsift.problem.own_problem import OwnProblem
from fedsift.problem.personalised import Personalised
from fedsift.problem.protocol import Batch, Composite, Problem, SampleWeighting, chunks
from fedsift.problem.quadratic import Quadratic, QuadraticClient, mean_client, random_quadratic
from fedsift.problem.reweighting import Reweighting
from fedsift.problem.sgd import LocalSteps
from fedsift.problem.trial import bind

__all__ = [
    "Batch",
    "ClassWeights",
    "ClientWeights",
    "Composite",
    "FlatModel",
    "GroupL2",
    "HyperRepresentation",
    "LabelledBatch",
    "LocalSteps",
    "LossPair",
    "MinMax",
    "OwnProblem",
    "Personalised",
    "Problem",
    "Quadratic",
    "QuadraticClient",
    "Reweighting",
    "SampleWeighting",
    "StoredBatch",
    "TensorBatch",
    "batch_of",
    "bind",
    "chunks",
    "cross_product",
    "hessian_product",
    "inner_gradient",
    "mean_client",
    "outer_gradients",
    "outer_loss_and_gradients",
    "outer_value",
    "random_quadratic",
    "without_batch_norm",
]
