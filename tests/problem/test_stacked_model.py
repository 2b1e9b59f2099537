"""Several small networks in one pass, against each on its own."""

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from fedsift.problem import FlatModel
from fedsift.problem.stacked_model import LARGEST, stacked_model

IMAGES = (2, 6, 6)
_TWICE = nn.ReLU()
NETWORKS = {
    "one activation in two places": nn.Sequential(
        *(nn.Conv2d(2, 3, 3), _TWICE, nn.Conv2d(3, 4, 3), _TWICE, nn.Flatten(), nn.Linear(16, 5)),
    ),
    "convolutions": nn.Sequential(
        *(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(3, 4, 2, stride=2, bias=False), nn.GELU(), nn.Flatten(), nn.Linear(4, 5)),
    ),
    "averages": nn.Sequential(
        *(nn.Conv2d(2, 3, 3, dilation=2), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten()),
        *(nn.Linear(3, 4, bias=False), nn.SiLU(), nn.Linear(4, 5)),
    ),
    "perceptron": nn.Sequential(nn.Flatten(), nn.Linear(72, 7), nn.Sigmoid(), nn.Linear(7, 5)),
}


def _case(network, shape=IMAGES, clients=3, size=4):
    source = torch.Generator().manual_seed(0)
    model = FlatModel(network.double())
    start = model.initial()
    ys = start + 0.1 * torch.randn(clients, len(start), dtype=start.dtype, generator=source)
    return model, ys, torch.randn(clients, size, *shape, dtype=start.dtype, generator=source)


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_are_those_of_every_network_on_its_own(name):
    model, ys, inputs = _case(NETWORKS[name])
    stacked = stacked_model(model, inputs)(ys)
    alone = torch.stack([model(y, part) for y, part in zip(ys, inputs, strict=True)])
    torch.testing.assert_close(stacked, alone, rtol=1e-12, atol=1e-12)


def test_rows_of_a_table_are_stacked_too():
    model, ys, inputs = _case(nn.Sequential(nn.Linear(9, 4), nn.ReLU(), nn.Linear(4, 2)), (9,))
    stacked = stacked_model(model, inputs)(ys)
    alone = torch.stack([model(y, part) for y, part in zip(ys, inputs, strict=True)])
    torch.testing.assert_close(stacked, alone, rtol=1e-12, atol=1e-12)


class _Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(72, 5)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layer(inputs.flatten(1))


class _Doubled(nn.Linear):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(inputs)


def _shared():
    layer = nn.Linear(72, 72)
    return nn.Sequential(nn.Flatten(), layer, nn.ReLU(), layer)


def _frozen():
    network = nn.Sequential(nn.Flatten(), nn.Linear(72, 4), nn.ReLU(), nn.Linear(4, 5))
    network[1].requires_grad_(False)
    return network


@pytest.mark.parametrize(
    "network",
    [
        _Own(),
        _frozen(),
        _shared(),
        nn.Sequential(nn.Flatten(), _Doubled(72, 5)),
        nn.Sequential(nn.Flatten(), weight_norm(nn.Linear(72, 5))),
        nn.Sequential(nn.GroupNorm(1, 2), nn.Flatten(), nn.Linear(72, 5)),
        nn.Sequential(nn.Conv2d(2, 4, 3, groups=2), nn.Flatten(), nn.Linear(64, 5)),
        nn.Sequential(nn.Conv2d(2, 4, 3, padding_mode="circular"), nn.Flatten(), nn.Linear(64, 5)),
        nn.Sequential(nn.Linear(6, 1), nn.Flatten(), nn.Linear(12, 5)),
    ],
    ids=[
        *("own forward", "frozen", "shared", "subclass", "weight norm", "normalisation"),
        *("groups", "circular", "linear on images"),
    ],
)
def test_what_is_not_known_is_not_stacked(network):
    model, _, inputs = _case(network)
    assert stacked_model(model, inputs) is None


def test_a_large_batch_is_not_stacked():
    model, _, _ = _case(NETWORKS["perceptron"])
    size = LARGEST // 72
    assert stacked_model(model, torch.zeros(2, size, *IMAGES)) is not None
    assert stacked_model(model, torch.zeros(2, size + 1, *IMAGES)) is None


@pytest.mark.parametrize("shape", [(6, 6), (), (2, 2, 3, 3)])
def test_inputs_that_are_neither_rows_nor_images_are_not_stacked(shape):
    size = torch.Size(shape).numel()
    model, _, inputs = _case(nn.Sequential(nn.Flatten(), nn.Linear(size, 2)), shape)
    assert stacked_model(model, inputs) is None
