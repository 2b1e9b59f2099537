"""The digits of scikit-learn: 1,797 real 8x8 images that need no download.

The split is the same for every seed of a run: 500 images for the test, 1,297 for training.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedsift.data.defaults import DEFAULTS
from fedsift.data.source import Source
from fedsift.randomness import generator

TEST_SIZE = 500


def load(split: str) -> Source:
    """Return the train or the test split."""
    from sklearn.datasets import load_digits  # noqa: PLC0415 - a second that others need not wait

    images, labels = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
    order = torch.randperm(len(labels), generator=generator("digits", "split"))
    rows = (order[:TEST_SIZE] if split == "test" else order[TEST_SIZE:]).sort().values
    row = DEFAULTS["digits"]
    pixels = images[rows].reshape(-1, *row.shape).float() / 16
    pixels = (pixels - row.mean[0]) / row.std[0]

    def decode(indices: Tensor) -> Tensor:
        return pixels[indices]

    return Source(f"digits/{split}", labels[rows].long(), row.class_names, row.shape, decode)
