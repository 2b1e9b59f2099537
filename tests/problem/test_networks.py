from __future__ import annotations

import pytest
import torch
from torch import nn

from fedsift.errors import InputError
from fedsift.problem import FlatModel
from fedsift.problem.networks import (
    MODELS,
    build_model,
    cnn,
    default_model,
    digits_cnn,
    linear,
    mlp,
    paper_cnn,
)
from fedsift.problem.stacked_model import stacked_model

CASES = [
    ("paper_cnn", (1, 28, 28), 10),
    ("paper_cnn", (3, 32, 32), 10),
    ("paper_cnn", (1, 28, 28), 62),
    ("digits_cnn", (1, 8, 8), 10),
    ("linear", (1, 8, 8), 10),
    ("mlp", (12,), 3),
    ("cnn", (1, 8, 8), 10),
    ("cnn", (3, 9, 30), 4),
    ("cnn", (2, 224, 100), 2),
]


def flat(model: nn.Module) -> torch.Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach()


@pytest.mark.parametrize(("name", "shape", "classes"), CASES)
def test_weights_have_variance_one_over_fan_in_and_biases_are_zero(name, shape, classes):
    for layer in build_model(name, shape, classes, seed=7).modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            n, fan_in = layer.weight.numel(), layer.weight[0].numel()
            # The sample variance of n normal draws lies within 5 of its standard deviations.
            assert (
                abs(layer.weight.detach().square().mean().item() * fan_in - 1) < 5 * (2 / n) ** 0.5
            )
            assert not layer.bias.any()


@pytest.mark.parametrize(("name", "shape", "classes"), CASES)
def test_a_model_gives_a_score_per_class(name, shape, classes):
    scores = build_model(name, shape, classes, seed=0)(torch.ones(3, *shape))
    assert tuple(scores.shape) == (3, classes)
    assert bool(scores.isfinite().all())


def test_building_leaves_the_global_random_state_alone():
    state = torch.get_rng_state()
    build_model("paper_cnn", (1, 28, 28), 10, seed=0)
    assert torch.equal(torch.get_rng_state(), state)


def test_another_seed_gives_another_model():
    first, other = (flat(build_model("digits_cnn", (1, 8, 8), 10, seed=s)) for s in (0, 1))
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (paper_cnn(1, 28, 10), (9 + 1) * 64 + 3 * (9 * 64 + 1) * 64 + (64 + 1) * 10),
        (paper_cnn(3, 32, 10), (27 + 1) * 64 + 3 * (9 * 64 + 1) * 64 + (4 * 64 + 1) * 10),
        (digits_cnn(), (9 + 1) * 20 + (9 * 20 + 1) * 32 + (16 * 32 + 1) * 10),
        (linear((3, 2, 2), 5), (12 + 1) * 5),
        (mlp((3, 2), 5), (6 + 1) * 64 + (64 + 1) * 5),
        (cnn((3, 8, 8), 5), (27 + 1) * 32 + 2 * (9 * 32 + 1) * 32 + (16 * 32 + 1) * 5),
        (cnn((1, 224, 224), 2), (9 + 1) * 32 + 2 * (9 * 32 + 1) * 32 + (16 * 32 + 1) * 2),
    ],
)
def test_number_of_parameters(model, count):
    assert flat(model).numel() == count


def test_the_papers_model_has_about_a_hundred_thousand_parameters():
    assert 1.1e5 < flat(paper_cnn(1, 28, 62)).numel() < 1.2e5


@pytest.mark.parametrize(
    ("channels", "size", "sides"), [(1, 28, [14, 7, 3, 1]), (3, 32, [16, 8, 4, 2])]
)
def test_each_pooling_halves_the_side(channels, size, sides):
    images, seen = torch.zeros(1, channels, size, size), []
    for layer in paper_cnn(channels, size, 10):
        images = layer(images)
        if isinstance(layer, nn.MaxPool2d):
            seen.append(images.shape[-1])
    assert seen == sides


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("resnet", (1, 8, 8), "one of paper_cnn, digits_cnn, linear"),
        ("paper_cnn", (1, 8, 8), "too small"),
        ("paper_cnn", (1, 28, 32), "square"),
        ("digits_cnn", (1, 28, 28), r"\[1, 8, 8\]"),
        ("cnn", (1, 8, 7), "8x8 pixels or more"),
        ("cnn", (64,), "8x8 pixels or more"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(name, shape, message):
    with pytest.raises(InputError, match=message):
        build_model(name, shape, 10, seed=0)


def test_a_layer_without_seeded_initialisation_is_refused(monkeypatch):
    monkeypatch.setitem(MODELS, "normed", lambda _shape, _classes: nn.Sequential(nn.BatchNorm1d(3)))
    with pytest.raises(InputError, match="BatchNorm1d"):
        build_model("normed", (3,), 10, seed=0)


@pytest.mark.parametrize(("name", "shape"), [("mlp", (6,)), ("cnn", (2, 33, 17))])
def test_own_data_models_have_a_forward_derivative(name, shape):
    model = FlatModel(build_model(name, shape, 3, seed=0).double())
    random = torch.Generator().manual_seed(0)  # ReLU and pooling have kinks: not at any point
    y, inputs = model.initial(), torch.rand(2, *shape, dtype=torch.float64, generator=random)
    v = torch.ones_like(y)
    _, forward = torch.func.jvp(lambda at: model(at, inputs), (y,), (v,))
    step = 1e-7
    numeric = (model(y + step * v, inputs) - model(y - step * v, inputs)) / (2 * step)
    torch.testing.assert_close(forward, numeric, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "shape"), [("mlp", (6,)), ("cnn", (2, 33, 17))])
def test_own_data_models_can_be_stacked(name, shape):
    model = FlatModel(build_model(name, shape, 3, seed=0).double())
    ys = torch.stack([model.initial(), 2 * model.initial()])
    random = torch.Generator().manual_seed(0)
    inputs = torch.rand(2, 4, *shape, dtype=torch.float64, generator=random)
    alone = torch.stack([model(y, part) for y, part in zip(ys, inputs, strict=True)])
    torch.testing.assert_close(stacked_model(model, inputs)(ys), alone, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "shape", "model"),
    [
        ("text", (4099,), "linear"),
        ("encoded", (512,), "linear"),
        ("table", (12,), "mlp"),
        ("image", (3, 32, 40), "cnn"),
        ("image", (3, 7, 40), "mlp"),
        ("array", (1, 28, 28), "cnn"),
        ("array", (28, 28), "mlp"),
    ],
)
def test_default_models_fit_their_inputs(kind, shape, model):
    assert default_model(kind, shape) == model
    assert build_model(model, shape, 3, seed=0)(torch.ones(2, *shape)).shape == (2, 3)


def test_there_is_no_default_model_for_whole_numbers():
    with pytest.raises(InputError, match="module:function"):
        default_model("integers", (20,))


def test_the_hash_of_what_is_frozen_knows_statistics_and_ignores_what_is_trained():
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 2))
    module[0].requires_grad_(False)
    before = FlatModel(module).frozen()
    with torch.no_grad():
        module[3].weight.add_(1)
    assert FlatModel(module).frozen() == before
    module[1].running_mean.add_(1)
    assert FlatModel(module).frozen() != before
    assert FlatModel(nn.Linear(2, 2)).frozen() == ""
