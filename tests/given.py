"""Small samples in the forms in which people have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
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
    """The part of ``datasets.Dataset`` that is used, on a pyarrow table."""

    def __init__(self, table: pa.Table, features: dict[str, Any] | None = None) -> None:
        self.table, self.features, self.column_names = table, features, table.column_names

    @classmethod
    def of(cls, **columns: Any) -> Columns:
        return cls(pa.table(columns))

    def __len__(self) -> int:
        return len(self.table)

    def with_format(self, kind: str) -> Columns:
        assert kind == "arrow"
        return self

    def select_columns(self, names: list[str]) -> Columns:
        return Columns(self.table.select(names), self.features)

    def __getitem__(self, rows: Any) -> pa.Table:
        return self.table[rows]
