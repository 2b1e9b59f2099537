"""Auto: which method it chooses for which model, and which keys it has."""

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from torch import nn

import fedsift as fs
from fedsift.algorithms import HeadStart, Posterior
from fedsift.algorithms.auto import FEW, HEAD, METHOD, NETWORK, choose, shared_groups
from fedsift.algorithms.fedavg import BatchKeys, LocalKeys
from fedsift.algorithms.method import Choice
from fedsift.algorithms.registry import METHODS
from fedsift.keys import BuildContext, Keys, Settings, key, keys_of
from fedsift.problem import FlatModel, Reweighting
from fedsift.problem.networks import MODELS, build_model
from zoo import ZOO, ResNet

X = torch.randn(15, 6, generator=torch.Generator().manual_seed(0))
IMAGES = torch.randn(15, 2, 8, 8, generator=torch.Generator().manual_seed(1))


class Frozen(nn.Module):
    """A user's own module: fixed features, then a head, called by the name of its argument."""

    def __init__(self, by_name=False, scale=1.0, again=False):
        super().__init__()
        self.body, self.head = nn.Linear(6, 5).requires_grad_(False), nn.Linear(5, 3)
        self.by_name, self.scale, self.again = by_name, scale, again

    def forward(self, x):
        features = torch.tanh(self.body(x))
        logits = self.head(input=features) if self.by_name else self.head(features)
        return self.scale * (logits + self.head(-features) if self.again else logits)


def frozen_but(module, trained):
    """Freeze all but one layer of a module."""
    module.requires_grad_(False)
    module.get_submodule(trained).requires_grad_(True)
    return module


def frozen_first():
    return frozen_but(nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), "0")


def frozen_last():
    return frozen_but(nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), "2")


def frozen_norm():
    return frozen_but(fs.without_batch_norm(ResNet()), "out")


def bias_only():
    layer = nn.Linear(6, 3)
    layer.weight.requires_grad_(False)
    return layer


HEADS = {
    "a linear layer": (nn.Linear(6, 3), X),
    "without an intercept": (nn.Linear(6, 3, bias=False), X),
    "on flattened images": (nn.Sequential(nn.Flatten(), nn.Linear(128, 3)), IMAGES),
    "on frozen layers": (frozen_last(), X),
    "of an own module": (Frozen(), X),
    "called by name": (Frozen(by_name=True), X),
    "of a residual network": (frozen_but(ResNet(), "out"), IMAGES),
    "without batch norm": (frozen_norm(), IMAGES),
    "in half precision": (nn.Linear(6, 3).half(), X),
}
NETWORKS = {
    "all layers": (nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), X),
    "without batch norm": (fs.without_batch_norm(ResNet()), IMAGES),
    "the first layer": (frozen_first(), X),
    "an intercept alone": (bias_only(), X),
    "a layer before a function": (nn.Sequential(nn.Linear(6, 3), nn.Softplus()), X),
    "a convolution": (nn.Sequential(nn.Conv2d(2, 3, 8), nn.Flatten()), IMAGES),
    "scaled logits": (Frozen(scale=2.0), X),
    "a layer used twice": (Frozen(again=True), X),
}


def chosen(module, inputs):
    return choose(Reweighting(FlatModel(module)), inputs, 3)


@pytest.mark.parametrize("name", HEADS)
def test_a_head_on_fixed_features(name):
    found = chosen(*HEADS[name])
    assert found.method == "out-of-fold"
    assert str(found) == (
        "auto chose out-of-fold: only a last linear layer on fixed features is trained"
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_any_other_model(name):
    found = chosen(*NETWORKS[name])
    assert found.method == "posterior"
    assert str(found) == (
        "auto chose posterior: not only a last linear layer on fixed features is trained"
    )


@pytest.mark.parametrize("name", ZOO)
def test_models_as_users_bring_them(name):
    inputs = ZOO[name].inputs(15, torch.Generator().manual_seed(2))
    assert chosen(ZOO[name].model(), inputs).method == "posterior"


@pytest.mark.parametrize("name", MODELS)
def test_models_by_their_names(name):
    inputs = torch.rand(15, 1, 28, 28) if "digits" not in name else torch.rand(15, 1, 8, 8)
    found = chosen(build_model(name, tuple(inputs.shape[1:]), 3, 0), inputs)
    assert found.method == ("out-of-fold" if name == "linear" else "posterior")


def test_what_it_chooses_are_rows_of_the_table():
    for candidate in (HEAD, NETWORK, FEW):
        assert METHODS[candidate.name] is candidate.row
        assert candidate.row.choose is None
        assert candidate.row.learns_weights == METHOD.learns_weights


def test_it_is_the_only_row_that_chooses():
    assert [name for name, row in METHODS.items() if row.choose is not None] == ["auto"]
    assert Choice("a", "why").by == "auto"


def test_its_keys_are_those_that_all_read():
    read = [keys_of(*candidate.row.groups).keys() for candidate in (HEAD, NETWORK, FEW)]
    shared = read[0] & read[1] & read[2]
    assert keys_of(*METHOD.groups).keys() == shared
    assert shared >= {"local_steps", "batch_size"}


def test_a_network_with_a_very_small_clean_set():
    network, inputs = NETWORKS["all layers"]
    found = chosen(network, inputs[:14])
    assert str(found) == (
        "auto chose single-loop: the clean set has 14 samples of 3 classes, fewer than 5 per class"
    )
    assert chosen(*HEADS["a linear layer"]).method == "out-of-fold"


@dataclass(frozen=True)
class OneKeys(Keys):
    table: ClassVar[str] = "inner"
    one: int = key(1, "one")


@dataclass(frozen=True)
class BothKeys(OneKeys, BatchKeys):
    two: int = key(2, "two")


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (((LocalKeys,), (LocalKeys,)), (LocalKeys,)),
        (((LocalKeys,), (BatchKeys,)), (BatchKeys,)),
        (((BatchKeys,), (LocalKeys,)), (BatchKeys,)),
        (((BothKeys,), (LocalKeys, OneKeys)), (OneKeys, BatchKeys)),
        (((LocalKeys, OneKeys), (BothKeys,)), (BatchKeys, OneKeys)),
        (((OneKeys,), (LocalKeys,)), ()),
    ],
)
def test_groups_are_shared_as_parts_of_larger_ones(groups, expected):
    rows = [replace(METHOD, groups=own) for own in groups]
    assert shared_groups(*rows) == expected


def test_without_a_model_it_builds_what_trains_any():
    settings = Settings.of(METHOD.groups, {"local_steps": 3})
    found = METHOD.build(settings, BuildContext(100))
    assert isinstance(found, HeadStart)
    assert isinstance(found.algorithm, Posterior)
    assert found.algorithm.local.steps == 3
