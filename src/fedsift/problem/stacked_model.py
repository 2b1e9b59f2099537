"""Several copies of a small network in one pass, each with its own parameters and inputs.

    [C, B, channels, h, w]  as  [B, C channels, h, w],  convolved in C groups       before Flatten
    [C, B, features]        times  [C, features, out]                               after it

A client's batch in a small network keeps a processor busy for microseconds per operation, hardly
longer than it takes to start one: a hundred batches in one call take a quarter of the time. Where
a batch alone is large enough, grouped convolutions are slower than plain ones.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from fedsift.problem.flat_model import FlatModel

LARGEST = 2**18  # numbers in a client's largest activation, above which a loop is as fast
POINTWISE = (nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Dropout)
POOLING = (nn.MaxPool2d, nn.AvgPool2d)


def stacked_model(model: FlatModel, inputs: Tensor) -> Callable[[Tensor], Tensor] | None:
    """Return Y [C, d] -> outputs [C, B, out] at inputs [C, B, ...].

    None for a network that is not a plain sequence of known layers, for inputs that are neither
    rows nor images with channels, and where a batch is too large to gain by it.
    """
    layers = known_layers(model, images=inputs.ndim == 5) if inputs.ndim in (3, 5) else None
    count, size = inputs.shape[:2]
    if layers is None or size * _largest_activation(model.module, inputs.shape[2:]) > LARGEST:
        return None
    if inputs.ndim == 5:
        images = inputs.transpose(0, 1).flatten(1, 2)
        inputs = images.contiguous(memory_format=torch.channels_last)

    def outputs(ys: Tensor) -> Tensor:
        values = model.unflatten(ys)
        h = inputs
        for name, layer in layers:
            if isinstance(layer, nn.Conv2d):
                h = _convolve(layer, h, values[f"{name}.weight"], values.get(f"{name}.bias"))
            elif isinstance(layer, nn.Linear):
                h = h @ values[f"{name}.weight"].mT
                if layer.bias is not None:
                    h = h + values[f"{name}.bias"][:, None]
            elif isinstance(layer, nn.Flatten):
                h = h.reshape(size, count, -1).transpose(0, 1) if h.ndim == 4 else h
            else:
                h = layer(h)
        return h

    return outputs


def _convolve(layer: nn.Conv2d, maps: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Convolve every client's maps with its own kernels, weight [C, out, in, h, w]."""
    kernels = weight.movedim(2, -1).flatten(0, 1).movedim(-1, 1)  # one copy, channels-last
    offsets = None if bias is None else bias.flatten()
    return conv2d(
        maps, kernels, offsets, layer.stride, layer.padding, layer.dilation, groups=len(weight)
    )


def known_layers(model: FlatModel, *, images: bool) -> list[tuple[str, nn.Module]] | None:
    """Return the layers in order, or None where one is not known here.

    Types are compared exactly, since a subclass may compute something else.
    """
    if type(model.module) is not nn.Sequential:
        return None
    found, flat = _in_order(model.module), not images
    for name, layer in found:
        kind = type(layer)
        if any(f"{name}.{own}" not in model.names for own, _ in layer.named_parameters()):
            return None  # frozen, or shared with a layer before: not in y by this name
        if isinstance(layer, nn.Flatten):
            known = kind is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1)
            flat = True
        elif isinstance(layer, nn.Conv2d):
            known = kind is nn.Conv2d and layer.groups == 1 and layer.padding_mode == "zeros"
            known = known and not flat
        elif kind is nn.Linear:
            known = flat
        else:
            known = kind in POINTWISE or (kind in POOLING and not flat)
        if not known:
            return None
    return found if flat else None


def _in_order(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return the layers of a sequence with their names; one that occurs twice is listed twice."""
    return [(name, layer) for name, layer in module._modules.items() if layer is not None]


_LARGEST: WeakKeyDictionary[nn.Module, dict[torch.Size, int]] = WeakKeyDictionary()


def _largest_activation(module: nn.Module, shape: torch.Size) -> int:
    """Return how many numbers a sample of this shape has in the largest layer."""
    known = _LARGEST.setdefault(module, {})
    if shape not in known:
        h, sizes = torch.empty(1, *shape, device="meta"), []
        for _, layer in _in_order(copy.deepcopy(module).to("meta", torch.float32)):
            h = layer(h)
            sizes.append(h.numel())
        known[shape] = max(sizes)
    return known[shape]
