"""Files that cannot be read: each is refused with one true sentence, and nothing else is raised."""

import gzip
import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from encoded import encode
from fedsift.data.sources import ReadOptions, image_size, read
from fedsift.errors import DataError, InputError

GREY = np.zeros((4, 5), np.uint8)
ID, LABEL = ReadOptions(id_column="who"), ReadOptions(label_column="diagnosis")


def _bytes(save, *arguments, **named) -> bytes:
    buffer = io.BytesIO()
    save(buffer, *arguments, **named)
    return buffer.getvalue()


def _npz(**arrays) -> bytes:
    return _bytes(np.savez, **arrays)


def _npy(array, **named) -> bytes:
    return _bytes(np.save, np.asarray(array), **named)


def _parquet(**columns) -> bytes:
    return _bytes(lambda sink: pq.write_table(pa.table(columns), sink))


def _zip(name: str, data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(name, data)
    return buffer.getvalue()


TWICE = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([0])], ["a", "a", "label"])
WHOLE = _parquet(a=list(range(1000)), label=["x"] * 1000)
STATE = '{"_data_files": [{"filename": "data.arrow"}]}'
OBJECTS = np.array([{}, {}], dtype=object)

CSV = {  # what it is: (text, options, sentence)
    "no rows": ("a,label\n", None, "has no rows"),
    "blank": ("\n\n", None, "is empty"),
    "long row": ("a,label\n1,x\n1,2,y\n", None, "3 fields in line 3 and 2 in its header"),
    "short row": ("a,b,label\n1,2,x\n1,y\n", None, "2 fields in line 3 and 3 in its header"),
    "open quote": ('a,label\n"1,x\n', None, "cannot be read as csv"),
    "semicolons": ("a;label\n1,5;x\n", None, r"one column 'a;label'; separate fields with commas"),
    "two alike": ("a,a,label\n1,2,x\n", None, "two columns 'a'"),
    "no name": ("a,,label\n1,2,x\n", None, "no name for column 2"),
    "latin-1": ("a,label\nM\xfcller,x\n".encode("latin-1"), None, "not UTF-8"),
    "utf-16": ("a,label\n1,x\n".encode("utf-16"), None, "not UTF-8"),
    "no label column": ("a,b\n1,x\n", None, r"no column 'label' \(it has a, b\); .*--label-column"),
    "other label column": ("a,label\n1,x\n", LABEL, "no column 'diagnosis'"),
    "no id column": ("a,label\n1,x\n", ID, "no column 'who'.*--id-column"),
    "missing labels": ("a,label\n1,x\n2,\n3,NA\n", None, "no label in 2 of 3 rows.*row 1;"),
    "missing ids": ("who,a,label\n7,1,x\n,1,y\n", ID, "no id in 1 of 2 rows"),
    "same ids": ("who,a,label\n7,1,x\n7,1,y\n", ID, "id '7' 2 times"),
    "fractions": ("a,label\n1,0.5\n", None, "label 0.5, which is not a whole number"),
    "label alone": ("label\nx\n", None, "no column besides"),
    "unknown ignored": (
        "a,label\n1,x\n",
        ReadOptions(ignore_columns=("b",)),
        "no column 'b'.*--ignore-column",
    ),
    "unknown image": ("a,label\n1,x\n", ReadOptions(image_column="b"), "no column 'b'.*--image"),
    "paths that are not there": (
        "scan,label\nno.png,x\n",
        ReadOptions(image_column="scan"),
        r"no\.png does not exist",
    ),
    "numbers for paths": (
        "a,scan,label\n1,2,x\n",
        ReadOptions(image_column="scan"),
        "row 0 of column 'scan' of .*has no image",
    ),
}
FILES = {  # what it is: (files, which is read, options, sentence)
    "nothing there": ({}, "a.csv", None, "there is no file or folder"),
    "no bytes": ({"a.parquet": b""}, "a.parquet", None, "is empty, it has no bytes"),
    "other format": ({"a.xlsx": b"PK"}, "a.xlsx", None, r"no format that is known \(csv, parquet"),
    "no gzip": ({"a.csv.gz": b"a,label\n1,x\n"}, "a.csv.gz", None, "not a whole gzip file"),
    "cut gzip": (
        {"a.csv.gz": gzip.compress(os.urandom(999))[:500]},
        "a.csv.gz",
        None,
        "not a whole gzip|not UTF-8",
    ),
    "text as parquet": ({"a.parquet": b"a,label"}, "a.parquet", None, "cannot be read as parquet"),
    "cut parquet": ({"a.parquet": WHOLE[:-20]}, "a.parquet", None, "cannot be read as parquet"),
    "two columns alike": (
        {"a.parquet": _bytes(lambda sink: pq.write_table(TWICE, sink))},
        "a.parquet",
        None,
        "two columns 'a'",
    ),
    "nested column": (
        {"a.parquet": _parquet(a=[[1]], label=["x"])},
        "a.parquet",
        None,
        "column 'a' .*list.*--ignore-column a",
    ),
    "ragged inputs": (
        {"a.parquet": _parquet(inputs=[[1, 2], [3]], label=[0, 1])},
        "a.parquet",
        None,
        "lists of lengths 2, 1",
    ),
    "gaps in inputs": (
        {"a.parquet": _parquet(inputs=[[1.0, None], [3.0, 4.0]], label=[0, 1])},
        "a.parquet",
        None,
        "1 missing numbers",
    ),
    "words as inputs": (
        {"a.parquet": _parquet(inputs=[["a"], ["b"]], label=[0, 1])},
        "a.parquet",
        None,
        "holds string and not numbers",
    ),
    "two image columns": (
        {"a.parquet": _parquet(a=[{"bytes": b""}], b=[{"bytes": b""}], label=[0])},
        "a.parquet",
        None,
        "image columns a, b; choose one with --image-column",
    ),
    "image without bytes": (
        {"a.parquet": _parquet(a=[{"bytes": b"", "path": None}], label=[0])},
        "a.parquet",
        None,
        "row 0 of column 'a' .*has no image",
    ),
    "numbers as images": (
        {"a.parquet": _parquet(a=[1.5], label=[0])},
        "a.parquet",
        ReadOptions(image_column="a"),
        "has the type double; images are",
    ),
    "unlike parquet files": (
        {"d/0.parquet": _parquet(a=[1], label=[0]), "d/1.parquet": _parquet(b=[1], label=[0])},
        "d",
        None,
        "differ in column 'a'",
    ),
    "types of parquet files": (
        {"d/0.parquet": _parquet(a=[1], label=[0]), "d/1.parquet": _parquet(a=["x"], label=[0])},
        "d",
        None,
        "differ in column 'a' or its type",
    ),
    "splits in one folder": (
        {f"d/{name}-0.parquet": _parquet(a=[1], label=[0]) for name in ("train", "test")},
        "d",
        None,
        "splits test, train; give the files of one split",
    ),
    "text as arrow": ({"a.arrow": b"a,label\n1,x\n"}, "a.arrow", None, "cannot be read as Arrow"),
    "several splits": (
        {"d/dataset_dict.json": '{"splits": ["train", "test"]}'},
        "d",
        None,
        "splits train, test; give the folder of one split, such as .*train",
    ),
    "state without files": (
        {"d/state.json": "{}", "d/dataset_info.json": "{}"},
        "d",
        None,
        "lists no data files",
    ),
    "state that is no json": ({"d/state.json": "["}, "d", None, "not what save_to_disk writes"),
    "no dataset_info": ({"d/state.json": STATE}, "d", None, "no file .*dataset_info.json"),
    "arrow file gone": (
        {"d/state.json": STATE, "d/dataset_info.json": "{}"},
        "d",
        None,
        "no file .*data.arrow",
    ),
    "no zip": ({"a.npz": b"PK"}, "a.npz", None, "not a whole .npz file"),
    "other zip": ({"a.npz": _zip("a.txt", b"hello")}, "a.npz", None, "no array 'inputs'"),
    "array named npz": ({"a.npz": _npy([[1.0]])}, "a.npz", None, "not a whole .npz file"),
    "npz without labels": ({"a.npz": _npz(inputs=GREY)}, "a.npz", None, "no array 'labels'"),
    "pickle in npz": (
        {"a.npz": _npz(inputs=OBJECTS, labels=np.arange(2))},
        "a.npz",
        None,
        "'inputs' of .*Python objects",
    ),
    "words in npz": (
        {"a.npz": _npz(inputs=np.array([["a"]]), labels=np.arange(1))},
        "a.npz",
        None,
        "and not numbers",
    ),
    "short labels": (
        {"a.npz": _npz(inputs=GREY, labels=np.arange(3))},
        "a.npz",
        None,
        "4 inputs but labels of shape 3",
    ),
    "label without a name": (
        {"a.npz": _npz(inputs=GREY, labels=np.arange(4), class_names=np.array(["a", "b"]))},
        "a.npz",
        None,
        "label 2 but 2 class names",
    ),
    "damaged npz": (
        {"a.npz": _zip("inputs.npy", b"\x93NUMPY nothing") + b""},
        "a.npz",
        None,
        "no array 'labels'",
    ),
    "npy without labels": ({"d/inputs.npy": _npy(GREY)}, "d", None, "no array 'labels'"),
    "pickle in npy": (
        {"d/inputs.npy": _npy(OBJECTS, allow_pickle=True), "d/labels.npy": _npy([0, 1])},
        "d",
        None,
        "inputs.npy holds Python objects",
    ),
    "cut npy": (
        {"d/inputs.npy": _npy(GREY)[:-3], "d/labels.npy": _npy([0] * 4)},
        "d",
        None,
        "inputs.npy is not a whole .npy file",
    ),
    "unknown class": (
        {"d/classes.txt": "dog", "d/cat/a.png": encode(GREY)},
        "d",
        None,
        "cat is a class that .*classes.txt does not list",
    ),
    "classes twice": (
        {"d/classes.txt": "cat\ncat", "d/cat/a.png": encode(GREY)},
        "d",
        None,
        "a class twice",
    ),
    "images without classes": ({"d/a.png": encode(GREY)}, "d", None, "no folder of images"),
    "folders of folders": (
        {"d/train/cat/a.png": encode(GREY)},
        "d",
        None,
        "has folders but no png, jpg",
    ),
    "only unreadable": (
        {"d/a/a.png": b"?"},
        "d",
        ReadOptions(skip_unreadable=True),
        "no image that can be read; look at .*a.png",
    ),
    "some paths gone": (
        {"a.csv": "scan,label\na.png,x\nb.png,y\n", "a.png": encode(GREY)},
        "a.csv",
        None,
        "1 images that are not there, such as b.png",
    ),
    "animation in a column": (
        {
            "a.csv": "scan,label\na.png,x\n",
            "a.png": encode(GREY, save_all=True, append_images=[Image.fromarray(GREY + 1)]),
        },
        "a.csv",
        None,
        r"a\.png is an image file with 2 pictures",
    ),
}
FILES |= {
    f"csv, {name}": ({"a.csv": text}, "a.csv", options, sentence)
    for name, (text, options, sentence) in CSV.items()
}


def _refused(path: Path, options: ReadOptions | None, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence) as caught:
        read(path, options or ReadOptions())
    text = str(caught.value)
    assert "\n" not in text
    assert not text.endswith(".")
    assert str(path.parent) in text


@pytest.mark.parametrize("name", FILES)
def test_wrong_file(write, name):
    files, chosen, options, sentence = FILES[name]
    _refused(write(files) / chosen, options, sentence)


def test_an_empty_folder(tmp_path):
    _refused(tmp_path, None, "is an empty folder")


def test_a_link_to_nothing(tmp_path):
    (tmp_path / "a.csv").symlink_to(tmp_path / "gone.csv")
    _refused(tmp_path / "a.csv", None, r"is a link to .*gone\.csv, which is not there")


def test_an_image_that_is_a_link_to_nothing(write):
    folder = write({"d/cat/a.png": encode(GREY)}) / "d"
    (folder / "cat/b.png").symlink_to("gone.png")
    _refused(folder, None, r"b\.png does not exist")


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.arrow", "a.npz"])
def test_a_file_that_may_not_be_read(write, monkeypatch, name):
    path = write({name: b"something"}) / name

    def deny(*_arguments, **_named):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", deny)
    monkeypatch.setattr(pa, "memory_map", deny)
    monkeypatch.setattr(pq, "ParquetFile", deny)
    monkeypatch.setattr(np, "load", deny)
    _refused(path, None, "(may not be read by this user|Permission denied)")


def test_a_wide_table_of_one_type_is_no_list(tmp_path):
    pd.DataFrame({"inputs": [1, 2], "label": [0, 1]}).to_parquet(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet").content.kind == "table"


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("", "cannot be imported .AttributeError"),
        ("make = 3", "is a int; name a function"),
        ("def make(): return 1 / 0", "failed .ZeroDivisionError"),
        ("def make(): return None", "is a NoneType"),
        ("1 / 0", "cannot be imported .ZeroDivisionError"),
    ],
)
def test_wrong_functions(write, monkeypatch, code, sentence):
    module = f"wrong_{abs(hash(code))}"
    monkeypatch.syspath_prepend(write({f"{module}.py": code}))
    with pytest.raises(InputError, match=sentence):
        read(f"{module}:make")


def test_a_module_that_is_not_there():
    with pytest.raises(InputError, match=r"cannot be imported .ModuleNotFoundError"):
        read("nowhere_at_all:make")


@pytest.mark.parametrize("text", ["", "x", "3x", "2x3x4", "-1", "1.5", "axb"])
def test_wrong_image_sizes(text):
    with pytest.raises(DataError, match="is not HxW or one number"):
        image_size(text)


@pytest.mark.parametrize("options", [{"image_size": (0, 3)}, {"id_column": "label"}])
def test_wrong_options(options):
    with pytest.raises(DataError, match=r"not possible|two purposes"):
        ReadOptions(**options)
