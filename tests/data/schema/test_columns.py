from __future__ import annotations

from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from fedsift.data.schema import column_kind

TEXTS = ["no pain at all", "a fever since two days", "well"]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1.5, np.nan, 2], "number"),
        (pd.array([1, None], "Int64"), "number"),
        (np.array([1, 2.5, None], object), "number"),
        ([Decimal("1.5"), None], "number"),
        ([True, False], "boolean"),
        (np.array([True, None], object), "boolean"),
        (["True", "FALSE", None], "boolean"),
        (["true", "maybe"], "category"),
        (["1", "2"], "category"),
        (pd.Categorical([1, 2, 1]), "category"),
        (["a b c", "d e f"], "category"),
        (TEXTS, "text"),
        (["a b c d", "e"], "category"),
        (pd.to_datetime(["2024-01-31", None]), "date"),
        (pd.to_timedelta(["1h"]), "date"),
        (pd.to_datetime(["2024-01-31"], utc=True), "date"),
        (pd.period_range("2024", periods=2), "date"),
        ([date(2024, 1, 31), None], "date"),
        ([None, np.nan], "empty"),
        ([], "empty"),
        ([1 + 2j, 3], "category"),
        ([[1, 2], [3]], "category"),
    ],
)
def test_kind_of_a_column(values, kind):
    assert column_kind(pd.Series(values)) == kind
