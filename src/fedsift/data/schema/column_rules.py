"""The fitted numbers of one column, and how they are applied.

| rule       | outputs                                                                    |
|------------|----------------------------------------------------------------------------|
| `Number`   | (value or median, - mean, / std); 1 where it is missing, if it ever was     |
| `Boolean`  | 0 or 1; 0.5 where it is missing                                            |
| `Category` | 1 in the category's own column; all 0 where it is unknown or missing       |
| `Text`     | counts of hashed words and pairs of words, of length 1, divided by `scale` |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer

from fedsift.data.samples import Samples
from fedsift.data.schema import cells
from fedsift.data.schema.columns import column_kind
from fedsift.errors import InputError

Block = npt.NDArray[np.floating[Any]]
MOST_OUTPUTS = 100_000


@dataclass(frozen=True)
class Number:
    """A number: imputed with the median, standardised."""

    name: str
    median: float
    mean: float
    std: float
    indicator: bool

    def __post_init__(self) -> None:
        _positive(self.name, "std", self.std)

    @property
    def width(self) -> int:
        """Number of outputs."""
        return 1 + self.indicator

    def apply(self, column: pd.Series[Any], samples: Samples) -> Block:
        """Return [n, width]."""
        values = cells.numbers(column, self.name, samples)
        missing = np.isnan(values)
        scaled = (np.where(missing, self.median, values) - self.mean) / self.std
        cells.check_size(scaled, self.name, samples)
        parts = [scaled, missing.astype(np.float64)]
        return np.stack(parts[: self.width], axis=1)

    def unseen(self, column: pd.Series[Any]) -> str | None:
        """Say that there are gaps where the clean set has none."""
        missing = int(column.isna().sum())
        if not missing or self.indicator:
            return None
        return (
            f"{missing} of {len(column)} rows have no value in column {self.name!r}, where the "
            "clean set has no gaps; they count as its median"
        )


@dataclass(frozen=True)
class Boolean:
    """True or false."""

    name: str

    @property
    def width(self) -> int:
        """Number of outputs."""
        return 1

    def apply(self, column: pd.Series[Any], samples: Samples) -> Block:
        """Return [n, 1]."""
        values = cells.booleans(column, self.name, samples)
        return np.where(np.isnan(values), 0.5, values)[:, None]

    def unseen(self, column: pd.Series[Any]) -> str | None:  # noqa: ARG002
        """Return nothing: a gap is half-way between true and false."""
        return None


@dataclass(frozen=True)
class Category:
    """One of the clean set's categories."""

    name: str
    categories: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.categories or len(set(self.categories)) < len(self.categories):
            raise InputError(
                f"the categories of column {self.name!r} must be one or more, all different; take "
                "the schema that the server wrote"
            )

    @property
    def width(self) -> int:
        """Number of outputs."""
        return len(self.categories)

    def apply(self, column: pd.Series[Any], samples: Samples) -> Block:
        """Return [n, categories]."""
        codes = self._codes(column)
        if (codes < 0).all() and column_kind(column) in {"number", "date", "boolean"}:
            expected = f"a category such as {self.categories[0][:40]!r}"
            raise cells.wrong_cell(column, column.notna(), self.name, samples, expected)
        return np.asarray(codes[:, None] == np.arange(self.width), np.float64)

    def unseen(self, column: pd.Series[Any]) -> str | None:
        """Count what is unknown, and name the most frequent ones."""
        unknown = cells.texts(column)[(self._codes(column) < 0) & column.notna().to_numpy(bool)]
        if unknown.empty:
            return None
        return (
            f"{len(unknown)} of {len(column)} rows have a category in column {self.name!r} that "
            f"the clean set lacks ({counted(unknown)}); they count as missing"
        )

    def _codes(self, column: pd.Series[Any]) -> npt.NDArray[np.intp]:
        texts = cells.texts(column)
        if column_kind(column) == "boolean":  # a reader's True was 'true' in the file
            spelled = {c.lower(): c for c in self.categories}
            texts = texts.map(lambda v: spelled.get(v.lower(), v), na_action="ignore")
        return np.asarray(pd.Index(self.categories, dtype="str").get_indexer(pd.Index(texts)))


@dataclass(frozen=True)
class Text:
    """Words, hashed: no vocabulary has to be agreed on, and none travels."""

    name: str
    columns: int
    scale: float

    def __post_init__(self) -> None:
        _positive(self.name, "scale", self.scale)
        if not 1 <= self.columns <= MOST_OUTPUTS:
            raise InputError(
                f"column {self.name!r} must be hashed to 1 to {MOST_OUTPUTS} columns; take the "
                "schema that the server wrote"
            )

    @property
    def width(self) -> int:
        """Number of outputs."""
        return self.columns

    def apply(self, column: pd.Series[Any], samples: Samples) -> sparse.csr_matrix:
        """Return [n, columns], sparse."""
        if column_kind(column) in {"number", "date"}:
            raise cells.wrong_cell(column, column.notna(), self.name, samples, "text")
        return hashed(column, self.columns) / self.scale

    def unseen(self, column: pd.Series[Any]) -> str | None:  # noqa: ARG002
        """Return nothing: any word has a place."""
        return None


def hashed(column: pd.Series[Any], columns: int) -> sparse.csr_matrix:
    """Count words and pairs of words in hashed columns; each row has length 1."""
    if column.empty:  # which scikit-learn does not take
        return sparse.csr_matrix((0, columns), dtype=np.float32)
    vectoriser = HashingVectorizer(
        n_features=columns, ngram_range=(1, 2), norm="l2", alternate_sign=True, dtype=np.float32
    )
    return vectoriser.transform(cells.texts(column).fillna(""))


def counted(values: pd.Series[Any]) -> str:
    """Name the five most frequent values with their counts."""
    counts = values.value_counts()
    listed = ", ".join(f"{str(v)[:40]!r}: {n}" for v, n in counts.head(5).items())
    return listed + (f" and {len(counts) - 5} others" if len(counts) > 5 else "")


def _positive(name: str, what: str, value: float) -> None:
    if not value > 0:
        raise InputError(
            f"the {what} of column {name!r} must be positive and is {value}; take the schema that "
            "the server wrote"
        )
