"""Class probabilities of any number of samples, in chunks."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fedsift.problem.flat_model import FlatModel
from fedsift.problem.inputs import Inputs, parts

NUMBERS = 2**22  # of all inputs in one pass
SMALLEST, LARGEST = 64, 1000


@torch.no_grad()
def predict(model: FlatModel, y: Tensor, inputs: Inputs) -> Tensor:
    """Return the class probabilities of every input."""
    size = min(max(NUMBERS // max(math.prod(inputs.shape[1:]), 1), SMALLEST), LARGEST)
    outputs = [model(y, part.to(y.device)) for part in parts(inputs, size)]
    return torch.cat(outputs).softmax(dim=1)
