from __future__ import annotations

import pandas as pd
import pytest

import schema_cases


@pytest.fixture
def frame() -> pd.DataFrame:
    return schema_cases.mixed_frame()
