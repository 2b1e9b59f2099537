"""The noisy-label problem, against one gradient per sample."""

import pytest
import torch
from torch import nn
from torch.func import grad
from torch.nn.functional import cross_entropy

from fedsift.client.passes import cross_pass
from fedsift.errors import InputError
from fedsift.problem import FlatModel, LabelledBatch, Reweighting, cross_product


def _cross(conv, batch, total):
    return cross_pass(conv.problem, conv.x, conv.y, batch, conv.v, total)


def _own(conv):
    """Return the samples with the classes that the model takes them for."""
    likeliest = conv.problem.outputs(conv.y, conv.batch).argmax(dim=1)
    assert 0 < int((likeliest == conv.batch.labels).sum()) < len(likeliest)
    return LabelledBatch.of(conv.batch.inputs, likeliest)


def test_scores_are_inner_products_of_sample_gradients(conv):
    n, own = len(conv.batch), _own(conv)
    scores = n * _cross(conv, conv.batch, n).value

    def slope(batch, j):
        one = batch.take(torch.tensor([j]))
        return grad(lambda y: conv.problem.sample_losses(y, one).sum())(conv.y) @ conv.v

    for j in range(n):
        expected = slope(conv.batch, j) - conv.problem.bootstrap * slope(own, j)
        assert abs(scores[j] - expected) < 1e-10


def test_cross_product_matches_finite_differences_in_the_weights(conv):
    product = _cross(conv, conv.batch, len(conv.batch)).value

    def slope(x):
        return grad(lambda y: conv.problem.inner_loss(x, y, conv.batch))(conv.y) @ conv.v

    for j, unit in enumerate(torch.eye(len(conv.x)).double()):
        # The loss is linear in the weights: the difference is exact.
        assert abs(product[j] - (slope(conv.x + unit) - slope(conv.x))) < 1e-10


def test_cross_products_and_agreements_of_parts_add_up(conv):
    n, halves = len(conv.batch), (torch.arange(0, 5), torch.arange(5, 12))
    whole = _cross(conv, conv.batch, n)
    parts = [_cross(conv, conv.batch.take(h), n) for h in halves]
    plain = cross_product(conv.problem, conv.x, conv.y, conv.batch, conv.v)
    torch.testing.assert_close(sum(p.value for p in parts), plain, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(sum(p.agreement for p in parts), whole.agreement)


def test_agreement_compares_the_label_with_the_best_other_class(conv):
    found = _cross(conv, conv.batch, len(conv.batch)).agreement
    logits = conv.problem.outputs(conv.y, conv.batch)
    for j, p in enumerate(logits.softmax(dim=1)):
        label = int(conv.batch.labels[j])
        other = max(float(p[c]) for c in range(3) if c != label)
        assert abs(found[j] - p[label] / (p[label] + other)) < 1e-12
        assert bool(found[j] < 0.5) == bool(p.argmax() != label)


def test_the_loss_of_a_pool_is_the_weighted_mean_of_its_parts(conv):
    takes, shares = (torch.arange(0, 3), torch.arange(3, 12)), (0.6, 0.4)
    clients = [LabelledBatch.of(conv.batch.inputs[t], conv.batch.labels[t]) for t in takes]
    xs = [conv.x[t] for t in takes]
    x, batch = conv.problem.pool(list(zip(xs, clients, shares, strict=True)))
    parts = [
        share * conv.problem.inner_loss(own, conv.y, client)
        for own, client, share in zip(xs, clients, shares, strict=True)
    ]
    torch.testing.assert_close(conv.problem.inner_loss(x, conv.y, batch), sum(parts))


def test_inner_loss_is_the_weighted_mean_with_weight_decay(conv):
    module = conv.problem.model.to_module(conv.y)
    kappa, own = conv.problem.bootstrap, _own(conv).labels
    losses = [
        w * cross_entropy(module(i[None]), t[None])
        + kappa * (1 - w) * cross_entropy(module(i[None]), o[None])
        for w, i, t, o in zip(conv.x, conv.batch.inputs, conv.batch.labels, own, strict=True)
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
        (nn.BatchNorm2d(2, track_running_stats=False), "use fs.without_batch_norm"),
        (nn.LazyLinear(2), "'weight' has no shape yet; call the model once"),
        (nn.ReLU(), "no trainable parameter"),
    ],
)
def test_models_without_a_function_of_y_are_refused(module, message):
    with pytest.raises(InputError, match=message):
        Reweighting(FlatModel(module))
