"""Labelled samples of a client: in memory, or read when a pass needs them.

| batch           | inputs        | `take(positions)`                                      |
|-----------------|---------------|--------------------------------------------------------|
| `LabelledBatch` | a tensor      | the samples                                            |
| `StoredBatch`   | stored        | reads the samples; `unread(positions)` only names them |

Both give samples in one layout at aligned addresses, so that equal samples round the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedsift.memory import aligned
from fedsift.problem.inputs import Inputs, StoredInputs, take


@dataclass(frozen=True)
class LabelledBatch:
    """Inputs and labels; ``LabelledBatch.of(inputs, labels)`` makes one.

    Attributes:
        inputs: One row per sample.
        labels: Class numbers.
        positions: The entries of x that weigh the samples.
        scale: The weight of each sample in a mean over samples; None: all equal.
    """

    inputs: Tensor
    labels: Tensor
    positions: Tensor
    scale: Tensor | None = None

    @classmethod
    def of(cls, inputs: Tensor, labels: Tensor) -> LabelledBatch:
        """Give the samples the positions 0, 1, ..."""
        places = torch.arange(len(labels), device=labels.device)
        return cls(_laid_out(inputs), aligned(labels), places)

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, positions: Tensor) -> LabelledBatch:
        """Return the samples at these positions."""
        at = positions.to(self.labels.device)
        scale = None if self.scale is None else self.scale[at]
        return LabelledBatch(self.inputs[at], self.labels[at], self.positions[at], scale)

    def span(self, start: int, stop: int) -> LabelledBatch:
        """Return the samples from ``start`` up to ``stop``: views, not copies."""
        at = slice(start, stop)
        scale = None if self.scale is None else self.scale[at]
        return LabelledBatch(self.inputs[at], self.labels[at], self.positions[at], scale)


@dataclass(frozen=True, eq=False)
class StoredBatch:
    """Labels in memory, inputs not: ``positions`` are entries of x and of the stored inputs."""

    inputs: StoredInputs
    labels: Tensor
    positions: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, positions: Tensor) -> LabelledBatch:
        """Read the samples at these positions, onto the device of the labels."""
        at = positions.to(self.labels.device)
        places = self.positions[at]
        read = take(self.inputs, places.cpu()).to(self.labels.device)
        return LabelledBatch(_laid_out(read), self.labels[at], places)

    def unread(self, positions: Tensor) -> StoredBatch:
        """Return the samples at these positions without reading them."""
        at = positions.to(self.labels.device)
        return StoredBatch(self.inputs, self.labels[at], self.positions[at])


def batch_of(
    inputs: Inputs, labels: Tensor, device: torch.device | str = "cpu"
) -> LabelledBatch | StoredBatch:
    """Return a client's samples as a batch on a device; stored inputs stay where they are."""
    if isinstance(inputs, Tensor):
        return LabelledBatch.of(inputs.to(device), labels.to(device))
    here = aligned(labels.to(device))
    return StoredBatch(inputs, here, torch.arange(len(here), device=here.device))


def _laid_out(inputs: Tensor) -> Tensor:
    """Return images channels-last, on which convolutions are faster, and all else row by row."""
    layout = torch.channels_last if inputs.ndim == 4 else torch.contiguous_format
    return aligned(inputs.contiguous(memory_format=layout))
