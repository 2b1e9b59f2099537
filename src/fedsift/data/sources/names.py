"""Labels and ids as text.

| given                         | label                                          |
|-------------------------------|------------------------------------------------|
| text                          | as it is, with its case and spaces             |
| true, false; True, FALSE, ... | "true", "false"                                |
| 3, 3.0, "3.0" beside numbers  | "3"                                            |
| 0.5                           | refused: a label is a class                    |
| a number, with class names    | the name of that class; -1 is a missing label  |
| NaN, None, ""                 | refused: counted, and the first row named      |

Rows are counted from 0, as in the audit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedsift.errors import DataError

Names = tuple[str, ...]

_WHOLE = re.compile(r"([+-]?\d+)(\.0*)?")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf")


def label_names(values: Any, where: str, classes: Names | None = None) -> Names:
    """Return the name of each sample's class."""
    series = _series(values, where, "labels")
    absent = _missing(series)
    if classes is not None and _is_integer(series):
        absent |= (series == -1).to_numpy(bool, na_value=False)
    if count := int(absent.sum()):
        raise DataError(
            f"{where} has no label in {count} of {len(series)} rows, the first is row "
            f"{int(absent.argmax())}; give each sample a label or leave it out"
        )
    if classes is not None:
        return _by_class(series, where, classes)
    return _plain(series, where)


def id_names(values: Any, where: str) -> Names:
    """Return the owner's name of each sample; refuse a missing one and one that occurs twice."""
    series = _series(values, where, "ids")
    absent = _missing(series)
    if count := int(absent.sum()):
        raise DataError(
            f"{where} has no id in {count} of {len(series)} rows, the first is row "
            f"{int(absent.argmax())}; give each sample an id"
        )
    names = tuple(text_of(value) for value in series)
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count > 1:
        raise DataError(f"{where} has the id {name!r} {count} times; each sample needs its own")
    return names


def _series(values: Any, where: str, what: str) -> pd.Series:
    if isinstance(values, pd.Series):
        return values.reset_index(drop=True)
    if hasattr(values, "detach"):  # a tensor
        values = values.detach().cpu().numpy()
    array = values if isinstance(values, np.ndarray) else list(values)
    try:
        return pd.Series(array)
    except ValueError:
        raise DataError(
            f"{where} has {what} that are not one value per sample; give a list of n {what}"
        ) from None


def _missing(series: pd.Series) -> Any:
    return series.isna().to_numpy() | np.array([_is_empty(value) for value in series], bool)


def _is_empty(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


def _is_integer(series: pd.Series) -> bool:
    return pd.api.types.is_integer_dtype(series.dtype)


def _by_class(series: pd.Series, where: str, classes: Names) -> Names:
    if not _is_integer(series):
        names = _plain(series, where)
        if unknown := next((name for name in names if name not in classes), None):
            raise DataError(
                f"{where} has the label {unknown!r}, which is not among its classes "
                f"({_listed(classes)}); add it to them or correct it"
            )
        return names
    outside = series[(series < 0) | (series >= len(classes))]
    if len(outside):
        raise DataError(
            f"{where} has the label {int(outside.iloc[0])} but {len(classes)} class names; labels "
            f"must be 0 to {len(classes) - 1}"
        )
    return tuple(classes[number] for number in series.tolist())


def _plain(series: pd.Series, where: str) -> Names:
    values = [text_of(value) for value in series]
    kinds = set(values)
    if {value.lower() for value in kinds} <= {"true", "false"}:
        return tuple(value.lower() for value in values)
    if all(_NUMBER.fullmatch(value) for value in kinds):
        return tuple(_whole(value, where) for value in values)
    return tuple(values)


def _whole(text: str, where: str) -> str:
    if match := _WHOLE.fullmatch(text):
        return match[1] if match[2] else text  # "01" stays as it is, "1.0" is 1
    if float(text).is_integer() and abs(float(text)) < 2**53:
        return str(int(float(text)))
    raise DataError(
        f"{where} has the label {text}, which is not a whole number; labels are classes, so "
        "give names or whole numbers"
    )


def text_of(value: Any) -> str:
    """Return one value as text: 3.0 is 3, True is true."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _listed(names: Sequence[str], shown: int = 10) -> str:
    return ", ".join(names[:shown]) + (", ..." if len(names) > shown else "")


def first_few(names: Sequence[str], shown: int = 3) -> str:
    """Name the first few of what was left out."""
    return _listed(names, shown)
