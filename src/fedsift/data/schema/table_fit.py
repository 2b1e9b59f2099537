"""Fitting the rules of a table's columns, with scikit-learn, on the clean set.

| columns    | transformer                                                         |
|------------|---------------------------------------------------------------------|
| numbers    | ``SimpleImputer`` (median), ``StandardScaler``; ``MissingIndicator`` |
| categories | ``OneHotEncoder``, unknown ones ignored                              |
| text       | ``HashingVectorizer``                                                |

A number of hashed text is about 1/√(words of the row), so a word would count less the longer the
texts are. ``scale`` is the root mean square of the numbers that are not 0: a word that occurs then
weighs about as much as a category or one standard deviation of a number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fedsift.data.samples import Samples
from fedsift.data.schema import cells
from fedsift.data.schema.column_rules import Boolean, Category, Number, Text, hashed

HASHED_COLUMNS = 2**12


def fit_columns(
    frame: pd.DataFrame, kinds: dict[str, str], clean: Samples
) -> tuple[tuple[Number, ...], tuple[Boolean, ...], tuple[Category, ...], tuple[Text, ...]]:
    """Fit a rule for every column; ``frame`` has the columns of ``kinds`` only."""
    chosen = {kind: [n for n, k in kinds.items() if k == kind] for kind in set(kinds.values())}
    numbers, categories = chosen.get("number", []), chosen.get("category", [])
    read = [
        *(pd.Series(cells.numbers(frame[n], n, clean)) for n in numbers),
        *(cells.texts(frame[n]).astype(object) for n in categories),
    ]
    fitted = _fitted(read, len(numbers)) if read else None
    return (
        tuple(_numbers(numbers, fitted)) if numbers else (),
        tuple(Boolean(n) for n in chosen.get("boolean", [])),
        tuple(_categories(categories, fitted)) if categories else (),
        tuple(_text(n, frame[n]) for n in chosen.get("text", [])),
    )


def _fitted(columns: list[pd.Series[Any]], numbers: int) -> ColumnTransformer:
    """Fit on the columns by position, the numbers first: odd names confuse scikit-learn."""
    table = pd.concat(columns, axis=1, keys=range(len(columns)))
    # Listed, so that a gap is no category of its own.
    seen = [sorted(column.dropna().unique()) for column in columns[numbers:]]
    first, others = list(range(numbers)), list(range(numbers, len(columns)))
    transformer = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), first),
            ("gaps", MissingIndicator(features="missing-only"), first),
            ("categories", OneHotEncoder(categories=seen, handle_unknown="ignore"), others),
        ],
        sparse_threshold=0,  # never stacked: only the fitted numbers are read
    )
    return transformer.fit(table)


def _numbers(names: list[str], fitted: Any) -> list[Number]:
    imputer, scaler = fitted.named_transformers_["numbers"]
    gaps = set(fitted.named_transformers_["gaps"].features_.tolist())
    table = zip(names, imputer.statistics_, scaler.mean_, scaler.scale_, strict=True)
    return [
        Number(name, float(median), float(mean), float(std), i in gaps)
        for i, (name, median, mean, std) in enumerate(table)
    ]


def _categories(names: list[str], fitted: Any) -> list[Category]:
    levels = fitted.named_transformers_["categories"].categories_
    return [Category(n, tuple(map(str, level))) for n, level in zip(names, levels, strict=True)]


def _text(name: str, column: pd.Series[Any]) -> Text:
    values = hashed(column, HASHED_COLUMNS).data
    scale = float(np.sqrt(np.mean(np.square(values, dtype=np.float64)))) if len(values) else 1.0
    return Text(name, HASHED_COLUMNS, scale)
