"""``fedsift data``."""

import re
import sys

import numpy as np
import pytest
from PIL import Image

from fedsift.data import DATASETS

PLACES = {
    "digits": "embedded",
    "mnist": "hub: ylecun/mnist",
    "cifar10": "hub: uoft-cs/cifar10",
    "cifar10-features": "missing:",
    "femnist": "hub: flwrlabs/femnist",
}


@pytest.mark.parametrize("columns", ["80", "160"])
def test_list_has_every_dataset_and_its_place(fedsift, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    out = fedsift("data", "list").out
    for row in DATASETS.values():
        (line,) = (line for line in out.splitlines() if line.startswith(f"  {row.name} "))
        assert f" {len(row.class_names)} " in line
        assert PLACES[row.name] in line


def test_list_shows_the_whole_path_of_missing_files(fedsift, monkeypatch):
    monkeypatch.setenv("FEDSIFT_DATA", "/data/" + "very-long-name/" * 4 + "[old]")
    lines = fedsift("data", "list").out.splitlines()
    last_column = [re.split(r"\s{2,}", line.strip())[-1] for line in lines]
    assert "/data/" + "very-long-name/" * 4 + "[old]/ylecun/mnist" in "".join(last_column)


def test_info_counts_the_labels_of_each_split(fedsift):
    out = fedsift("data", "info", "digits").out
    assert "digits train: 1297 samples\n" in out
    assert "digits test: 500 samples\n" in out
    train, test = (line for line in out.splitlines() if "labels" in line)
    counts = [int(part.partition(": ")[2]) for part in train.partition("labels")[2].split(",")]
    assert (len(counts), sum(counts)) == (10, 1297)
    assert test != train


def test_prepare_says_what_is_ready(fedsift):
    assert fedsift("data", "prepare", "digits").out.splitlines() == [
        "digits train: 1297 samples are ready",
        "digits test: 500 samples are ready",
    ]


TABLE = """\
patient,age,sex,smoker,seen,report,diagnosis
007,61,f,true,2020-01-02,no sign of any disease,ill
008,,m,false,2020-01-03,a small mass on the left,well
009,40,m,false,2020-01-04,nothing at all was found,well
"""


def test_info_of_a_table_shows_what_it_is_read_as(fedsift, empty_folder):
    (empty_folder / "t.csv").write_text(TABLE)
    ended = fedsift(
        *("data", "info", "t.csv", "--label-column", "diagnosis", "--id-column", "patient"),
        *("--ignore-column", "seen"),
    )
    assert (ended.code, ended.err) == (0, "")
    assert [" ".join(line.split()) for line in ended.out.splitlines()] == [
        "t.csv",
        "read as a table, 3 samples",
        "column age: number, 1 missing",
        "column sex: category of 2 values",
        "column smoker: true/false",
        "column report: text",
        "2 classes ill: 1, well: 2",
        "ids 007 ... 009",
    ]


def test_info_of_a_folder_of_images(fedsift, empty_folder):
    for name in ("ill/a", "well/b"):
        (empty_folder / "scans" / name).parent.mkdir(parents=True)
        Image.new("I;16", (5, 4)).save(empty_folder / f"scans/{name}.png")
    (empty_folder / "scans/ill/notes.txt").write_text("?")
    out = fedsift("data", "info", "scans").out
    assert "images, 2 samples" in out
    assert "4x5 (height x width), 16-bit grey" in out
    assert "1 files or folders are left out, no images: ill/notes.txt" in out


def test_info_of_arrays_and_of_a_function(fedsift, empty_folder, monkeypatch):
    monkeypatch.setattr("sys.path", list(sys.path))
    np.savez(empty_folder / "a.npz", inputs=np.zeros((2, 3, 4)), labels=[10, 9])
    assert "3x4, float32" in fedsift("data", "info", "a.npz").out
    code = "def make_for_info(): return [[1.0], [2.0]], [10, 9]"
    (empty_folder / "info_of_function.py").write_text(code)
    out = fedsift("data", "info", "info_of_function:make_for_info").out
    assert "9: 1, 10: 1" in out


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("t.csv", "no column 'label' (it has patient, age"),
        ("gone.csv", "there is no file or folder gone.csv"),
        ("nothing", "nothing"),
    ],
)
def test_info_of_what_cannot_be_read_is_one_sentence(fedsift, empty_folder, name, sentence):
    (empty_folder / "t.csv").write_text(TABLE)
    ended = fedsift("data", "info", name)
    assert ended.code == 2
    assert sentence in ended.err
    assert ended.err.count("\n") == 1
