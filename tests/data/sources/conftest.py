"""Small files, and a table with columns of every kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest


@pytest.fixture
def write(tmp_path):
    """Return a function that writes files below an empty folder, and returns the folder."""

    def put(files: dict[str, bytes | str]) -> Path:
        for name, data in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.encode() if isinstance(data, str) else data)
        return tmp_path

    return put


@pytest.fixture
def patients() -> pd.DataFrame:
    """A table with columns of every kind, two with missing values."""
    return pd.DataFrame(
        {
            "patient": ["007", "008", "011", "x1"],
            "age": [61.5, np.nan, 40.0, 33.0],
            "visits": [3, 1, 2, 9],
            "sex": ["f", "m", None, "f"],
            "smoker": [True, False, False, True],
            "report": ["no sign of any disease", "small mass in the left lung"] * 2,
            "diagnosis": ["ill", "well", "well", " Ill"],
        }
    )


@pytest.fixture
def save_to_disk(tmp_path):
    """Return a function that writes a table as ``datasets.save_to_disk`` does, in two files."""

    def put(table: pa.Table, features: str, name: str = "saved") -> Path:
        folder = tmp_path / name
        folder.mkdir()
        middle, names = len(table) // 2, [f"data-0000{n}-of-00002.arrow" for n in range(2)]
        for part, file in zip((table[:middle], table[middle:]), names, strict=True):
            with pa.ipc.new_stream(str(folder / file), part.schema) as stream:
                stream.write_table(part)
        listed = ", ".join(f'{{"filename": "{file}"}}' for file in names)
        (folder / "state.json").write_text(f'{{"_data_files": [{listed}], "_split": null}}')
        (folder / "dataset_info.json").write_text(f'{{"features": {features}}}')
        return folder

    return put
