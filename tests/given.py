"""Small samples in the forms in which people have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.utils.data import Dataset, IterableDataset

from fedsift.randomness import generator

N = 12
X = torch.randn(N, 2, generator=generator(0, "inputs")).numpy()
Y = np.arange(N) % 3
NAMES = np.array(["cat", "ant", "bee"])[Y]  # sorted: ant 0, bee 1, cat 2
SITES = np.array(["north", "south"])[np.arange(N) // 3 % 2]
HELD = (X[:6], Y[:6])
NAMED = (X[:6], NAMES[:6])
FRAME = pd.DataFrame(X, columns=["age", "weight"])


class Items(Dataset):
    """Items (x, y) of any kind."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        if isinstance(self.items[index], Exception):
            raise self.items[index]
        return self.items[index]


class Endless(IterableDataset):
    def __iter__(self) -> Any:
        return iter([(X[0], 0)])


class Columns:
    """What ``datasets.Dataset`` has."""

    def __init__(self, **columns: list[Any]) -> None:
        self.columns, self.column_names = columns, list(columns)
        self.features = dict.fromkeys(columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self.columns[key]
        return {name: [values[i] for i in key] for name, values in self.columns.items()}
