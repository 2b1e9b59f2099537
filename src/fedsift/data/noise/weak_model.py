"""A weak model of the data: linear softmax on few samples outside of the task.

    z(x) = W (x − μ) / σ + b        gradient steps from W = 0 on at most ``SAMPLES`` samples

No random number and no client's sample is in it. ``STEPS`` steps of length 2 / λ, λ being a bound
of the loss's curvature, leave it where it is right on most samples and wrong on the hard ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from fedsift.errors import DataError

SAMPLES, STEPS = 500, 100
EACH = 5  # samples per class, at least, on average: fewer teach nothing


@dataclass(frozen=True, eq=False)
class WeakModel:
    """Logits of any inputs; the last row of ``W`` is the bias."""

    mean: Tensor
    std: Tensor
    W: Tensor

    def logits(self, inputs: Tensor) -> Tensor:
        """Return z, a row per sample, in float64."""
        return _rows(inputs, self.mean, self.std) @ self.W


def train_weak(name: str, classes: int, read: Callable[[int], tuple[Tensor, Tensor]]) -> WeakModel:
    """Train it on the samples that ``read`` gives."""
    inputs, labels = read(SAMPLES)
    if len(labels) < EACH * classes:
        raise DataError(
            f"instance noise needs {EACH * classes} samples of {name} that no client has and that "
            f"neither validate nor test, but {len(labels)} are left; lower clients, "
            "samples_per_client, validation_size or test_size, or choose another noise"
        )
    flat = inputs.double().flatten(1)
    mean, std = flat.mean(dim=0), flat.std().clamp(min=1e-9)  # one σ: constant columns stay so
    rows, targets = _rows(inputs, mean, std), one_hot(labels, classes).double()
    step = 2 * len(rows) / float(torch.linalg.matrix_norm(rows, ord=2)) ** 2
    W = rows.new_zeros(rows.shape[1], classes)
    for _ in range(STEPS):
        p = (rows @ W).softmax(dim=1)
        W = W - step * rows.T @ (p - targets) / len(rows)
    return WeakModel(mean, std, W)


def _rows(inputs: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    flat = (inputs.double().flatten(1) - mean) / std
    return torch.cat([flat, flat.new_ones(len(flat), 1)], dim=1)
