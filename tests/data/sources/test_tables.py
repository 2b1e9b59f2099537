"""Tables in every format, against the DataFrame that was written."""

import gzip

import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest
import torch

import fedsift as fs
from fedsift.data.samples import Arrays, Table

READ = {"label_column": "diagnosis", "id_column": "patient"}
REST = ["age", "visits", "sex", "smoker", "report"]


def _arrow(frame: pd.DataFrame, path, stream: bool) -> None:
    table = pa.Table.from_pandas(frame)
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(str(path), table.schema) as sink:
        sink.write_table(table)


WRITERS = {
    "a.csv": lambda frame, path: frame.to_csv(path, index=False),
    "A.CSV": lambda frame, path: frame.to_csv(path, index=False, encoding="utf-8-sig"),
    "a.tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "a.csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "a.parquet": lambda frame, path: frame.to_parquet(path),
    "a.feather": lambda frame, path: frame.to_feather(path),
    "a.arrow": lambda frame, path: _arrow(frame, path, stream=False),
    "stream.arrow": lambda frame, path: _arrow(frame, path, stream=True),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_table_that_was_written(tmp_path, patients, name):
    WRITERS[name](patients, tmp_path / name)
    samples = fs.read(tmp_path / name, **READ)
    assert isinstance(samples.content, Table)
    pd.testing.assert_frame_equal(samples.content.frame, patients[REST], check_dtype=False)
    assert samples.labels == ("ill", "well", "well", " Ill")
    assert samples.ids == ("007", "008", "011", "x1")
    assert (samples.classes, samples.notes, len(samples)) == (None, (), 4)


def test_a_frame_keeps_its_types_and_order(patients):
    samples = fs.read(patients.set_index(pd.Index([5, 6, 7, 8])), **READ)
    pd.testing.assert_frame_equal(samples.content.frame, patients[REST])


def test_a_row_has_its_raw_values_for_people(patients):
    samples = fs.read(patients, **READ, ignore_columns=["report", "visits"])
    assert samples.content.fields(1) == {"age": None, "sex": "m", "smoker": False}


def test_a_folder_of_parquet_files_is_one_table(tmp_path, patients):
    patients[:1].to_parquet(tmp_path / "0.parquet")
    patients[1:].to_parquet(tmp_path / "1.parquet")
    samples = fs.read(tmp_path, **READ)
    pd.testing.assert_frame_equal(samples.content.frame, patients[REST], check_dtype=False)


def test_an_index_of_pandas_can_be_the_id_but_is_no_column(tmp_path, patients):
    patients.set_index("patient").to_parquet(tmp_path / "named.parquet")
    patients[::-1].to_parquet(tmp_path / "unnamed.parquet")
    assert fs.read(tmp_path / "named.parquet", **READ).ids == ("007", "008", "011", "x1")
    assert list(fs.read(tmp_path / "unnamed.parquet", **READ).content.frame) == REST


def test_row_numbers_without_a_name_are_left_out_and_said(tmp_path, patients):
    patients.to_csv(tmp_path / "a.csv")
    samples = fs.read(tmp_path / "a.csv", **READ)
    assert list(samples.content.frame) == REST
    assert "first column has no name" in samples.notes[0]


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        ("True,FALSE,true", ("true", "false", "true")),
        ("1,0,2", ("1", "0", "2")),
        ("1.0,0.0,2.0", ("1", "0", "2")),
        ("01,1,None", ("01", "1", "None")),
    ],
)
def test_labels_of_csv(write, cells, names):
    rows = "".join(f"5,{cell}\n" for cell in cells.split(","))
    assert fs.read(write({"a.csv": f"x,label\n{rows}"}) / "a.csv").labels == names


def test_quoted_fields_may_hold_separators_and_lines(write):
    folder = write({"a.csv.gz": gzip.compress(b'text,label\n"a, b\nc",x\n\n"say ""d""",y\n')})
    frame = fs.read(folder / "a.csv.gz").content.frame
    assert frame["text"].tolist() == ["a, b\nc", 'say "d"']


def test_categories_dates_and_decimals_of_parquet(tmp_path):
    from decimal import Decimal  # noqa: PLC0415

    days = pd.to_datetime(["2020-01-02", "2021-03-04"])
    cost = pa.array([Decimal("1.50"), None])
    table = pa.table(
        {"day": days.date, "cost": cost, "label": pa.array(["b", "a"]).dictionary_encode()}
    )
    pyarrow.feather.write_feather(table, tmp_path / "a.feather")
    samples = fs.read(tmp_path / "a.feather")
    assert samples.labels == ("b", "a")
    assert samples.content.frame["day"].tolist() == days.tolist()
    assert samples.content.frame["cost"].dtype == "float64"


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_a_list_column_is_an_array(tmp_path, name):
    inputs = torch.arange(24.0).reshape(4, 2, 3)
    frame = pd.DataFrame({"inputs": inputs.tolist(), "label": [1, 0, 1, 1], "id": list("abcd")})
    WRITERS[name](frame, tmp_path / name)
    samples = fs.read(tmp_path / name, id_column="id")
    assert isinstance(samples.content, Arrays)
    assert samples.content.inputs.shape == (4, 2, 3)
    rows = torch.tensor([3, 0, 3])
    assert torch.equal(samples.content.inputs.take(rows), inputs[rows])
    assert samples.ids == ("a", "b", "c", "d")
