"""Class probabilities of any number of samples, in chunks."""

from __future__ import annotations

import torch
from torch import Tensor

from fedsift.problem.flat_model import FlatModel
from fedsift.problem.inputs import Inputs, take

CHUNK = 512


@torch.no_grad()
def predict(model: FlatModel, y: Tensor, inputs: Inputs) -> Tensor:
    """Return the class probabilities of every input."""
    parts = torch.split(torch.arange(len(inputs)), CHUNK)
    outputs = [model(y, take(inputs, part).to(y.device)) for part in parts]
    return torch.cat(outputs).softmax(dim=1)
