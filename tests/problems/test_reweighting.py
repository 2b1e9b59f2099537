"""The noisy-label problem, against one gradient per sample."""

import pytest
import torch
from torch import nn
from torch.func import grad
from torch.nn.functional import cross_entropy

from fedsift.errors import InputError
from fedsift.problem import cross_product
from fedsift.problems import FlatModel, Reweighting


def test_scores_are_inner_products_of_sample_gradients(conv):
    scores = conv.problem.scores(conv.y, conv.batch, conv.v)
    for j in range(len(conv.batch)):
        one = conv.batch.take(torch.tensor([j]))
        gradient = grad(lambda y, s=one: conv.problem.sample_losses(y, s).sum())(conv.y)
        assert abs(scores[j] - gradient @ conv.v) < 1e-10


def test_cross_product_matches_finite_differences_in_the_weights(conv):
    product = cross_product(conv.problem, conv.x, conv.y, conv.batch, conv.v)

    def slope(x):
        return grad(lambda y: conv.problem.inner_loss(x, y, conv.batch))(conv.y) @ conv.v

    for j, unit in enumerate(torch.eye(len(conv.x)).double()):
        # The loss is linear in the weights: the difference is exact.
        assert abs(product[j] - (slope(conv.x + unit) - slope(conv.x))) < 1e-10


def test_cross_product_of_parts_adds_up(conv):
    whole = cross_product(conv.problem, conv.x, conv.y, conv.batch, conv.v)
    n, halves = len(conv.batch), (torch.arange(0, 5), torch.arange(5, 12))
    parts = [
        len(h) / n * cross_product(conv.problem, conv.x, conv.y, conv.batch.take(h), conv.v)
        for h in halves
    ]
    torch.testing.assert_close(sum(parts), whole, rtol=1e-10, atol=1e-12)


def test_inner_loss_is_the_weighted_mean_with_weight_decay(conv):
    module = conv.problem.model.to_module(conv.y)
    losses = [
        w * cross_entropy(module(i[None]), t[None])
        for w, i, t in zip(conv.x, conv.batch.inputs, conv.batch.labels, strict=True)
    ]
    decay = 0.5 * 1e-3 * sum(p.square().sum() for p in module.parameters())
    expected = sum(losses) / len(losses) + decay
    assert abs(conv.problem.inner_loss(conv.x, conv.y, conv.batch) - expected) < 1e-12


def test_weights_stay_between_0_and_1(conv):
    assert conv.problem.project(torch.tensor([-1.0, 0.25, 7.0])).tolist() == [0.0, 0.25, 1.0]


def test_a_model_with_tied_and_frozen_parameters_works():
    first = nn.Linear(3, 3)
    second = nn.Linear(3, 3)
    second.weight = first.weight
    second.bias.requires_grad_(False)
    net = nn.Sequential(first, nn.Tanh(), second)
    flat = FlatModel(net)
    inputs = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    assert flat.length == 9 + 3
    torch.testing.assert_close(flat(flat.initial(), inputs), net(inputs))
    torch.testing.assert_close(
        flat.to_module(2 * flat.initial())(inputs), flat(2 * flat.initial(), inputs)
    )


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)), "use GroupNorm"),
        (nn.ReLU(), "no trainable parameter"),
    ],
)
def test_models_without_a_function_of_y_are_refused(module, message):
    with pytest.raises(InputError, match=message):
        Reweighting(FlatModel(module))
