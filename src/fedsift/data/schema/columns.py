"""What a column of a table holds.

| kind     | column                                                       |
|----------|--------------------------------------------------------------|
| empty    | nothing but missing values                                   |
| boolean  | true and false, as such or as text                           |
| number   | numbers                                                      |
| date     | points in time                                               |
| text     | strings whose median has 4 or more words                     |
| category | other strings                                                |
"""

from __future__ import annotations

from statistics import median

import pandas as pd

WORDS_OF_TEXT = 4


def column_kind(series: pd.Series) -> str:  # noqa: PLR0911 - a row of the table each
    """Return the kind of a column."""
    present = series.dropna()
    if present.empty:
        return "empty"
    if isinstance(series.dtype, pd.CategoricalDtype):
        return "category"
    if pd.api.types.is_datetime64_any_dtype(series.dtype):
        return "date"
    if pd.api.types.is_bool_dtype(series.dtype):
        return "boolean"
    if pd.api.types.is_numeric_dtype(series.dtype):
        return "number"
    if {text.lower() for text in present.astype(str).unique()} <= {"true", "false"}:
        return "boolean"
    words = median(len(str(text).split()) for text in present)
    return "text" if words >= WORDS_OF_TEXT else "category"
