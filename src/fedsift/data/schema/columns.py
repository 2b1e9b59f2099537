"""What a column of a table holds.

| kind       | is                                                        |
|------------|-----------------------------------------------------------|
| `boolean`  | booleans, or text that says true or false                 |
| `number`   | numbers                                                   |
| `date`     | dates, times and durations                                |
| `text`     | strings, at the median of four words or more              |
| `category` | other strings, and anything else that repeats             |
| `empty`    | nothing but missing values                                |
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from numbers import Real
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.api import types

Kind = Literal["number", "category", "text", "boolean", "date", "empty"]
WORDS_OF_TEXT = 4
TRUTH = {"true": 1.0, "false": 0.0}


def column_kind(series: pd.Series[Any]) -> Kind:
    """Return what a column holds."""
    values = series.dropna()
    if not len(values):
        return "empty"
    if isinstance(values.dtype, pd.CategoricalDtype):
        return "category"
    values = values.infer_objects()
    if types.is_bool_dtype(values.dtype):
        return "boolean"
    real = types.is_numeric_dtype(values.dtype) and not types.is_complex_dtype(values.dtype)
    if real or _all_are(values, Real, Decimal):
        return "number"
    if isinstance(values.dtype, pd.PeriodDtype) or values.dtype.kind in "mM":
        return "date"
    return "date" if _all_are(values, date) else _kind_of_strings(values)


def _all_are(values: pd.Series[Any], *kinds: type) -> bool:
    """Tell whether all are objects of some types: decimals and dates of parquet files are."""
    return values.dtype == object and all(
        isinstance(value, kinds) and not isinstance(value, bool) for value in values
    )


def _kind_of_strings(values: pd.Series[Any]) -> Kind:
    strings = values.map(as_text)
    if strings.str.lower().isin(list(TRUTH)).all():
        return "boolean"
    words = strings.str.split().map(len)
    return "text" if words.median() >= WORDS_OF_TEXT else "category"


def as_text(value: Any) -> str:
    """Return a value as text; 3.0 is '3', which is what it was before a gap made it a float."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)
