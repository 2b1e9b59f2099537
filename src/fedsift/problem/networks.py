"""The models of the experiments, with parameters from a derived generator only.

    paper_cnn    4 x [64 filters of 3x3, ReLU, 2x2 max-pooling], linear: about 1.1e5 parameters
    digits_cnn   2 convolutions and a linear layer for 8x8 images: about 1.1e4 parameters
    linear       softmax regression
    mlp          one hidden layer of 64, for tables
    cnn          3 x [32 filters of 3x3, ReLU, pooling], linear: images of any size from 8x8 on

There is no batch norm: its running means would be state outside the flat vector y, and would make
a sample's loss depend on its batch.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

import torch
from torch import nn

from fedsift.errors import InputError
from fedsift.randomness import derive, generator
from fedsift.references import REFERENCE, call, find

Shape = tuple[int, ...]


def paper_cnn(channels: int, size: int, classes: int) -> nn.Module:
    """Return the paper's CNN; each pooling halves the side: 28, 14, 7, 3, 1 or 32, 16, 8, 4, 2."""
    if size < 16:
        raise InputError(
            f"paper_cnn halves the image 4 times, so {size}x{size} is too small; choose another "
            "model"
        )
    width, side = 64, size // 16
    layers: list[nn.Module] = []
    for inputs in (channels, width, width, width):
        layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width * side * side, classes))


def digits_cnn(classes: int = 10) -> nn.Module:
    """Return a small CNN for one 8x8 channel."""
    return nn.Sequential(
        *(nn.Conv2d(1, 20, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(20, 32, 3, padding=1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(32 * 4 * 4, classes)),
    )


def linear(shape: Shape, classes: int) -> nn.Module:
    """Return softmax regression on the flattened input."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), classes))


def _paper_cnn(shape: Shape, classes: int) -> nn.Module:
    if len(shape) != 3 or shape[1] != shape[2]:
        raise InputError(
            f"paper_cnn takes square images [C, H, H], not inputs {list(shape)}; choose another "
            "model"
        )
    return paper_cnn(shape[0], shape[1], classes)


def _digits_cnn(shape: Shape, classes: int) -> nn.Module:
    if shape != (1, 8, 8):
        raise InputError(
            f"digits_cnn takes images [1, 8, 8], not inputs {list(shape)}; choose another model"
        )
    return digits_cnn(classes)


def mlp(shape: Shape, classes: int) -> nn.Module:
    """Return one hidden layer on the flattened input."""
    hidden = 64
    layers = (nn.Linear(math.prod(shape), hidden), nn.ReLU(), nn.Linear(hidden, classes))
    return nn.Sequential(nn.Flatten(), *layers)


def cnn(shape: Shape, classes: int) -> nn.Module:
    """Return a small CNN; 4 to 7 rows and columns remain, whatever the size of the images is."""
    if len(shape) != 3 or min(shape[1:]) < 8:
        raise InputError(
            f"cnn takes images [C, H, W] of 8x8 pixels or more, not inputs {list(shape)}; choose "
            "another model"
        )
    width, (inputs, *sides) = 32, shape
    layers: list[nn.Module] = []
    for _ in range(3):
        layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU()]
        steps = [2 if side >= 8 else 1 for side in sides]
        if max(steps) > 1:
            layers.append(nn.MaxPool2d(tuple(steps)))
        inputs, sides = width, [side // step for side, step in zip(sides, steps, strict=True)]
    steps = [side // 4 for side in sides]
    if max(steps) > 1:  # adaptive pooling, with a fixed window: it has all derivatives
        layers.append(nn.AvgPool2d((steps[0], steps[1])))
    places = math.prod(side // step for side, step in zip(sides, steps, strict=True))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width * places, classes))


MODELS: dict[str, Callable[[Shape, int], nn.Module]] = {
    "paper_cnn": _paper_cnn,
    "digits_cnn": _digits_cnn,
    "linear": linear,
    "mlp": mlp,
    "cnn": cnn,
}


def default_model(kind: str, shape: Shape) -> str:
    """Name a model for inputs of a schema's kind: text, encoded, table, image, array or integers.

    Hashed words and an encoder's features have far more columns than there are clean samples, and
    are close to linearly separable; a hidden layer adds parameters, not accuracy.
    """
    if kind == "integers":
        raise InputError(
            "inputs are whole numbers, and no model of fedsift embeds them; give your own as "
            "module:function, or store them as floats"
        )
    if kind in {"text", "encoded"}:
        return "linear"
    image = len(shape) == 3 and min(shape[1:]) >= 8
    return "cnn" if image and kind in {"image", "array"} else "mlp"


def build_model(name: str, shape: Shape, classes: int, seed: int) -> nn.Module:
    """Build a model of the table, or ``module:function``; the global random state stays as it is.

    A function of one's own gets the inputs' shape and the number of classes if it takes two
    arguments, and else nothing.
    """
    if REFERENCE.fullmatch(name):
        return _own(name, shape, classes, seed)
    if name not in MODELS:
        raise InputError(
            f"there is no model {name!r}; give module:function or one of {', '.join(MODELS)}"
        )
    with torch.device("meta"):
        model = MODELS[name](tuple(shape), classes)
    model.to_empty(device="cpu")
    _initialise(model, generator(seed, "model"))
    return model


def _own(reference: str, shape: Shape, classes: int, seed: int) -> nn.Module:
    """Call a function of the user's."""
    function = find(reference)
    try:
        takes = len(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        takes = 0
    given = (shape, classes) if takes == 2 else ()
    return seeded_model(lambda *_: call(reference, *given), shape, classes, seed, reference)


def seeded_model(
    function: Callable[[Shape, int], nn.Module],
    shape: Shape,
    classes: int,
    seed: int,
    name: str = "the model's function",
) -> nn.Module:
    """Call a function with torch's generators seeded; they are then as before."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(derive(seed, "model"))
        module = function(shape, classes)
    if not isinstance(module, nn.Module):
        raise InputError(f"{name} returned a {type(module).__name__} and not an nn.Module")
    return module


@torch.no_grad()
def _initialise(model: nn.Module, random: torch.Generator) -> None:
    """Draw weights from N(0, 1 / fan_in); biases are zero.

    Torch's default is √3 times smaller in every layer, and plain SGD without batch norm then
    spends its first dozens of rounds growing the weights. The usual √2 for ReLU is too much here:
    max-pooling raises the scale too, and a step of 0.1 diverges.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="linear", generator=random)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif [*module.parameters(recurse=False), *module.buffers(recurse=False)]:
            # Left alone, its memory would hold whatever was there before.
            raise InputError(
                f"layer {name!r} is a {type(module).__name__}, which has no seeded "
                "initialisation; build the model from Conv2d and Linear layers"
            )
