"""The digits of scikit-learn: 1,797 real 8x8 images that need no download.

The split is the same for every seed of a run: 500 images for the test, 1,297 for training. ``mean``
and ``std`` are over all images, scaled to [0, 1].
"""

from __future__ import annotations

import string
from dataclasses import dataclass

import torch
from torch import Tensor

from fedsift.data.dataset import Dataset, Location, Source
from fedsift.randomness import generator

TEST_SIZE = 500


@dataclass(frozen=True)
class EmbeddedDigits:
    """Reads them from scikit-learn."""

    mean: float
    std: float

    def read(self, dataset: Dataset, split: str) -> Source:
        """Return the train or the test split."""
        from sklearn.datasets import load_digits  # noqa: PLC0415 - slow, and others need not wait

        images, labels = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
        order = torch.randperm(len(labels), generator=generator("digits", "split"))
        rows = (order[:TEST_SIZE] if split == "test" else order[TEST_SIZE:]).sort().values
        pixels = images[rows].reshape(-1, *dataset.shape).float() / 16
        pixels = (pixels - self.mean) / self.std

        def decode(indices: Tensor) -> Tensor:
            return pixels[indices]

        name = f"{dataset.name}/{split}"
        return Source(name, labels[rows].long(), dataset.class_names, dataset.shape, decode)

    def where(self, dataset: Dataset) -> Location:  # noqa: ARG002
        """Return the package that has them."""
        return Location("embedded", "scikit-learn")


DIGITS = Dataset(
    name="digits",
    description="8x8 handwritten digits that come with scikit-learn",
    class_names=tuple(string.digits),
    shape=(1, 8, 8),
    model="digits_cnn",
    reader=EmbeddedDigits(mean=0.3053, std=0.3761),
    samples_per_client=100,
    validation_size=200,
)
