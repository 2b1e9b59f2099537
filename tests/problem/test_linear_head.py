"""Linear heads: found in a model or refused, many as one, steps as autograd takes them."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedsift.errors import ConfigError
from fedsift.problem import FlatModel, Reweighting
from fedsift.problem.linear_head import LinearHead, logits, step_size, stepped

X = torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
CENTRE = X.mean(dim=0)


def head_of(module):
    return LinearHead.of(Reweighting(FlatModel(module)))


def frozen_network():
    network = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    network[0].requires_grad_(False)
    return network


@pytest.mark.parametrize(
    "module",
    [
        nn.Linear(6, 3),
        nn.Linear(6, 3, bias=False),
        nn.Sequential(nn.Flatten(), nn.Linear(6, 3)),
        frozen_network(),
    ],
    ids=["linear", "no intercept", "flatten", "frozen"],
)
def test_a_head_gives_the_logits_of_its_model(module):
    head = head_of(module)
    centre = head.centre(X)
    W = torch.randn(head.shape, generator=torch.Generator().manual_seed(1))
    found = logits(W, head.centred(X, centre))
    torch.testing.assert_close(found, head.model(head.flat(W, centre), X), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)),
        nn.Sequential(nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 3, 6), nn.Flatten()),
    ],
    ids=["all trained", "no linear layer"],
)
def test_more_than_a_head_is_refused(module):
    with pytest.raises(ConfigError, match=r"only the last layer is trained.*posterior"):
        head_of(module)


def test_a_linear_layer_that_is_not_the_last_is_refused():
    head = head_of(nn.Sequential(nn.Linear(6, 3), nn.Softplus()))
    with pytest.raises(ConfigError, match="posterior"):
        head.features(X)


def test_a_linear_layer_with_frozen_layers_behind_it_is_refused():
    network = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    network[2].requires_grad_(False)
    with pytest.raises(ConfigError, match="posterior"):
        head_of(network).features(X)


def test_many_heads_at_once_are_one_at_a_time():
    heads = torch.randn(2, 3, 4, 7, generator=torch.Generator().manual_seed(2))
    features = torch.cat([X, torch.ones(20, 1)], dim=1)
    residuals = torch.randn(20, 2, 3, 4, generator=torch.Generator().manual_seed(3))
    found = stepped(heads, features, residuals, 0.1, 0.2)
    for k in range(2):
        for f in range(3):
            torch.testing.assert_close(logits(heads, features)[:, k, f], features @ heads[k, f].T)
            one = stepped(heads[k, f], features, residuals[:, k, f], 0.1, 0.2)
            torch.testing.assert_close(found[k, f], one)


def test_a_step_is_that_of_autograd():
    W = torch.randn(3, 7, generator=torch.Generator().manual_seed(4)).requires_grad_()
    features, labels = torch.cat([X, torch.ones(20, 1)], dim=1), torch.arange(20) % 3
    loss = cross_entropy(features @ W.T, labels) + 0.5 * 0.3 * W[:, :-1].square().sum()
    (gradient,) = torch.autograd.grad(loss, W)
    residuals = ((features @ W.T).softmax(1) - torch.eye(3)[labels]) / 20
    found = stepped(W.detach(), features, residuals.detach(), 0.2, 0.3)
    torch.testing.assert_close(found, (W - 0.2 * gradient).detach())


def test_the_step_is_one_over_a_bound_on_the_curvature():
    x = X.double()

    def loss(W):
        return cross_entropy(x @ W.T, torch.arange(20) % 3) + 0.5 * 0.1 * W.square().sum()

    largest = 0.0
    for scale in (0.0, 0.3, 1.0):
        W = scale * torch.randn(3, 6, generator=torch.Generator().manual_seed(5)).double()
        hessian = torch.func.hessian(loss)(W).reshape(18, 18)
        largest = max(largest, float(torch.linalg.eigvalsh(hessian)[-1]))
    assert largest < 1 / step_size(X, 0.1) < 3 * largest
