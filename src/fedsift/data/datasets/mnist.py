"""MNIST: ``mean`` and ``std`` are the usual constants of the train split."""

from __future__ import annotations

import string

from fedsift.data.dataset import Dataset
from fedsift.data.hub import HubImages

MNIST = Dataset(
    name="mnist",
    description="28x28 handwritten digits",
    class_names=tuple(string.digits),
    shape=(1, 28, 28),
    model="paper_cnn",
    reader=HubImages("ylecun/mnist", folder="mnist", mean=(0.1307,), std=(0.3081,)),
)
