"""The cells of a column, read as the kind that the clean set's column has.

What is missing stays missing. A cell that is no number where numbers are expected is a DataError
that names it: a site's typing error must not become a missing value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types

from fedsift.data.samples import Samples
from fedsift.data.schema.columns import TRUTH, as_text, column_kind
from fedsift.data.schema.preparation import sample
from fedsift.errors import DataError

Column = pd.Series  # of one column's cells
Numbers = npt.NDArray[np.float64]
LARGEST = 1e30  # single precision ends at 3e38, and squares of differences are taken
BITS = {**TRUTH, "1": 1.0, "0": 0.0}


def numbers(column: Column[Any], name: str, samples: Samples) -> Numbers:
    """Return a column as numbers, NaN where one is missing."""
    if column_kind(column) in {"boolean", "date"}:
        raise wrong_cell(column, column.notna(), name, samples, "a number")
    plain = types.is_numeric_dtype(column.dtype)
    read = column if plain else column.astype(object).map(_number)
    values = pd.to_numeric(read, errors="coerce")
    result: Numbers = np.asarray(values.to_numpy(np.float64, na_value=np.nan))
    bad = column.notna().to_numpy(bool) & np.isnan(result)
    if bad.any():
        raise wrong_cell(column, bad, name, samples, "a number")
    check_size(result, name, samples)
    return result


def booleans(column: Column[Any], name: str, samples: Samples) -> Numbers:
    """Return a column as 0 and 1, NaN where one is missing."""
    bits = texts(column).str.lower().map(BITS)
    result: Numbers = np.asarray(bits.to_numpy(np.float64, na_value=np.nan))
    bad = column.notna().to_numpy(bool) & np.isnan(result)
    if bad.any():
        raise wrong_cell(column, bad, name, samples, "true or false")
    return result


def texts(column: Column[Any]) -> Column[Any]:
    """Return a column's cells as strings; what is missing is None."""
    cells = [
        None if missing else as_text(v) for v, missing in zip(column, _gaps(column), strict=True)
    ]
    return pd.Series(cells, dtype=object).astype("str")


def check_size(values: Numbers, name: str, samples: Samples) -> None:
    """Refuse numbers that single precision cannot compute with."""
    large = np.abs(np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf)) > LARGEST
    if large.any():
        row = int(np.argmax(large))
        raise DataError(
            f"column {name!r} of {samples.where} has a number in {sample(samples, row)} that is "
            "too large to compute with; correct it or leave it empty"
        )


def wrong_cell(
    column: Column[Any], bad: Any, name: str, samples: Samples, expected: str
) -> DataError:
    """Name the first cell that is not of the expected kind."""
    row = int(np.argmax(np.asarray(bad, bool)))
    return DataError(
        f"column {name!r} of {samples.where} has {as_text(column.iloc[row])[:40]!r} in "
        f"{sample(samples, row)} where {expected} is expected; correct it or leave it empty"
    )


def _gaps(column: Column[Any]) -> npt.NDArray[np.bool_]:
    return column.isna().to_numpy(bool)


def _number(value: Any) -> Any:
    """Return a decimal as a float; pandas reads the rest."""
    return float(value) if hasattr(value, "is_signed") else value
