"""A user's file with a corrected column, read back: the same rows in the same order."""

from __future__ import annotations

import gzip
import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedsift.data.own_file import OwnFile, write_own
from fedsift.data.sources import ReadOptions, read
from fedsift.errors import DataError
from own_files import write_pictures

READING = ReadOptions(label_column="diagnosis", id_column="patient")
AGAIN = ReadOptions(
    label_column="diagnosis_corrected", id_column="patient", ignore_columns=("diagnosis",)
)
NEW = {"P1": "ill", "P2": "late", "P4": "well"}  # P1 and P2 change, P4 keeps its label


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "patient": ["P0", "P1", "P2", "P3", "P4"],
            "age": ["41.50", "7", "", "1e2", "50"],
            "note": ["a, b", 'say "x"', "two\nlines", "é", ""],
            "diagnosis": ["well", "well", "ill", "late", "well"],
            "marker": [0.25, 1.5, -2.0, 3.0, 4.125],
        }
    )


def write_csv(frame, folder):
    frame.to_csv(folder / "site.csv", index=False)
    return "site.csv"


def write_tsv_gz(frame, folder):
    text = frame.to_csv(index=False, sep="\t", lineterminator="\r\n")
    (folder / "site.tsv.gz").write_bytes(gzip.compress(text.encode()))
    return "site.tsv.gz"


def write_parquet(frame, folder):
    frame.to_parquet(folder / "site.parquet", row_group_size=2)
    return "site.parquet"


def write_parquet_folder(frame, folder):
    (folder / "site").mkdir()
    frame[:3].to_parquet(folder / "site/a.parquet")
    frame[3:].to_parquet(folder / "site/b.parquet")
    return "site"


def write_categories(frame, folder):
    frame.astype({"diagnosis": "category"}).to_parquet(folder / "site.parquet")
    return "site.parquet"


def write_feather(frame, folder):
    frame.to_feather(folder / "site.feather")
    return "site.feather"


WRITERS = (
    write_csv,
    write_tsv_gz,
    write_parquet,
    write_parquet_folder,
    write_categories,
    write_feather,
)


@pytest.mark.parametrize("write", WRITERS)
def test_only_the_label_changes(write, frame, tmp_path):
    path = tmp_path / write(frame, tmp_path)
    before = read(path, READING)
    (tmp_path / "out").mkdir()
    written = write_own(OwnFile(str(path), READING), NEW, tmp_path / "out" / path.name)
    after = read(written, AGAIN)
    assert after.labels == ("well", "ill", "late", "late", "well")
    assert after.ids == before.ids
    pd.testing.assert_frame_equal(after.content.frame, before.content.frame)
    given = read(written, ReadOptions("diagnosis", "patient", ("diagnosis_corrected",)))
    assert given.labels == before.labels


def test_the_text_of_other_cells_stays(frame, tmp_path):
    """Numbers keep their digits, quotes and line ends their places."""
    path = tmp_path / write_csv(frame, tmp_path)
    written = write_own(OwnFile(str(path), READING), NEW, tmp_path / "new.csv")
    old = pd.read_csv(path, dtype=str, keep_default_na=False)
    new = pd.read_csv(written, dtype=str, keep_default_na=False)
    columns = ["patient", "age", "note", "diagnosis", "diagnosis_corrected", "marker"]
    assert list(new.columns) == columns
    pd.testing.assert_frame_equal(new.drop(columns="diagnosis_corrected"), old)


def test_an_unusable_sample_has_no_corrected_label(frame, tmp_path):
    for write in (write_csv, write_parquet):
        path = tmp_path / write(frame, tmp_path)
        own = OwnFile(str(path), READING)
        written = write_own(own, {"P3": None}, tmp_path / f"new{path.suffix}")
        again = {".csv": pd.read_csv, ".parquet": pd.read_parquet}[path.suffix](written)
        assert again["diagnosis_corrected"].isna().tolist() == [False] * 3 + [True, False]


@pytest.mark.parametrize("labels", [[0, 1, 1, 0], [True, False, False, True], [1.0, 2.0, 2.0, 1.0]])
def test_a_label_is_spelt_as_the_file_spells_it(tmp_path, labels):
    pd.DataFrame({"x": range(4), "label": labels}).to_parquet(tmp_path / "a.parquet")
    pd.DataFrame({"x": range(4), "label": labels}).to_csv(tmp_path / "a.csv", index=False)
    for name in ("a.parquet", "a.csv"):
        own = OwnFile(str(tmp_path / name), ReadOptions())
        other = read(own.data).labels[1]
        written = write_own(own, {"0": other}, tmp_path / f"new-{name}")
        table = pd.read_parquet(written) if name.endswith("t") else pd.read_csv(written)
        assert table["label_corrected"].tolist() == [labels[1], *labels[1:]]
        assert table["label_corrected"].dtype == table["label"].dtype


def test_hugging_face_knows_the_new_column(tmp_path):
    features = {"label": {"names": ["no", "yes", "new"], "_type": "ClassLabel"}}
    said = json.dumps({"info": {"features": features}}).encode()
    table = pa.table({"x": [1.0, 2.0], "label": [0, 1]}).replace_schema_metadata(
        {b"huggingface": said}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    own = OwnFile(str(tmp_path / "a.parquet"), ReadOptions())
    written = write_own(own, {"0": "new"}, tmp_path / "b.parquet")
    again = read(written, ReadOptions("label_corrected", ignore_columns=("label",)))
    assert again.labels == ("new", "yes")
    assert again.classes == ("no", "yes", "new")


@pytest.mark.parametrize("place", ["inside", "elsewhere"])
def test_images_by_a_list_of_classes(tmp_path, place):
    write_pictures(tmp_path, samples=6)
    path = tmp_path / "scans" / "north"
    before = read(path)
    own = OwnFile(str(path), ReadOptions())
    folder = tmp_path if place == "inside" else tmp_path / "run" / "clients"
    other = {"disc": "stripe", "stripe": "disc"}[before.labels[0]]
    written = write_own(own, {before.ids[0]: other}, folder / "images.csv")
    after = read(written, ReadOptions("label_corrected", ignore_columns=("label",)))
    assert after.labels == (other, *before.labels[1:])
    assert len(after) == len(before)
    for n in range(len(before)):
        assert (after.content.own_pixels(n) == before.content.own_pixels(n)).all()


def test_what_cannot_be_written_is_refused(frame, tmp_path):
    path = tmp_path / write_csv(frame, tmp_path)
    own = OwnFile(str(path), READING)
    with pytest.raises(DataError, match="is the data themselves"):
        write_own(own, NEW, path)
    written = write_own(own, NEW, tmp_path / "new.csv")
    with pytest.raises(DataError, match="already has a column 'diagnosis_corrected'"):
        write_own(OwnFile(str(written), READING), NEW, tmp_path / "newer.csv")
    with pytest.raises(DataError, match="cannot get a column of corrected labels"):
        write_own(OwnFile("module:function", READING), NEW, tmp_path / "x.csv")
    assert path.read_text() == frame.to_csv(index=False)
