"""The table of datasets: a new one is one file here and one row of ``DATASETS``.

Sizes are the paper's (Section 5): 10 clients with 500 samples each and 500 validation samples, or,
for FEMNIST, 350 writers over 10 clients and 5 other writers for validation.
"""

from __future__ import annotations

import difflib

from fedsift.data.dataset import Dataset
from fedsift.data.datasets.cifar10 import CIFAR10
from fedsift.data.datasets.cifar10_features import CIFAR10_FEATURES
from fedsift.data.datasets.digits import DIGITS
from fedsift.data.datasets.femnist import FEMNIST
from fedsift.data.datasets.mnist import MNIST
from fedsift.errors import DataError

DATASETS: dict[str, Dataset] = {
    row.name: row for row in (DIGITS, MNIST, CIFAR10, CIFAR10_FEATURES, FEMNIST)
}


def lookup(name: str) -> Dataset:
    """Return the row of a dataset."""
    if name in DATASETS:
        return DATASETS[name]
    close = difflib.get_close_matches(name.lower(), DATASETS, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise DataError(f"there is no dataset {name!r}; choose from {', '.join(DATASETS)}{hint}")
