"""Values of a Python program, against what they hold."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from PIL import Image
from scipy import sparse
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

import fedsift as fs
from encoded import encode
from fedsift.data.sources import as_samples, read
from fedsift.errors import DataError
from given import Columns

X = torch.arange(12.0).reshape(4, 3)
Y = ["a", "b", "b", "a"]


class Pairs(Dataset):
    """Items (x, y) that count how often they are read."""

    def __init__(self, x, y, **known):
        self.x, self.y, self.read = x, y, []
        self.__dict__.update(known)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        self.read.append(index)
        return self.x[index], self.y[index]


@pytest.mark.parametrize(
    "inputs", [X, X.numpy(), X.tolist(), X.double().numpy(), X.numpy().astype(np.float16)]
)
def test_a_pair(inputs):
    samples = as_samples((inputs, Y), "here")
    assert torch.equal(samples.content.inputs, X)
    assert (samples.labels, samples.ids) == (tuple(Y), None)


def test_a_triple_has_ids():
    assert as_samples((X, np.array([1, 0, 1, 1]), [10, 11, 12, 13]), "here").ids == (
        *("10", "11", "12", "13"),
    )


def test_a_frame_with_labels_beside_it():
    frame = pd.DataFrame({"age": [1, 2, 3, 4], 5: [0.5] * 4}, index=[9, 8, 7, 6])
    samples = as_samples((frame, pd.Series(Y, index=[3, 3, 3, 3])), "here")
    assert samples.content.fields(2) == {"age": 3, "5": 0.5}
    assert samples.labels == tuple(Y)


def test_samples_are_passed_on():
    samples = as_samples((X, Y), "here")
    assert fs.read(samples) is samples


def test_a_memory_map_stays_one(tmp_path):
    array = np.memmap(tmp_path / "x", np.float32, "w+", shape=(4, 3))
    array[:] = X.numpy()
    inputs = as_samples((array, Y), "here").content.inputs
    assert isinstance(inputs.parts[0], np.memmap)
    assert torch.equal(inputs.take(torch.tensor([2, 1])), X[[2, 1]])


def test_items_of_a_dataset_are_read_when_asked_for():
    pairs = Pairs(X, [1, 0, 1, 1], targets=torch.tensor([1, 0, 1, 1]), classes=["cat", "dog"])
    samples = as_samples(pairs, "here")
    assert (samples.labels, samples.classes) == (("dog", "cat", "dog", "dog"), ("cat", "dog"))
    assert samples.content.inputs.shape == (4, 3)
    assert torch.equal(samples.content.inputs.take(torch.tensor([3, 1])), X[[3, 1]])
    assert pairs.read == [0, 3, 1]


@pytest.mark.parametrize(
    "known",
    [
        {},
        {"labels": ["?"]},
        {"labels": [np.zeros(2)] * 4},
        {"targets": Y[::-1]},
        {"targets": Y, "target_transform": str},
    ],
)
def test_labels_come_from_the_items_where_nothing_else_is_sure(known):
    pairs = Pairs(X, ["b", "a", "b", "b"], **known)
    assert as_samples(pairs, "here").labels == ("b", "a", "b", "b")


def test_datasets_of_torch():
    whole = TensorDataset(X, torch.tensor([0, 1, 2, 1]))
    assert as_samples(whole, "here").labels == ("0", "1", "2", "1")
    part = as_samples(Subset(Pairs(X, Y, targets=Y), [2, 0]), "here")
    assert part.labels == ("b", "a")
    assert torch.equal(part.content.inputs.take(torch.tensor([0])), X[[2]])


def test_pillow_images_of_a_dataset_keep_their_values():
    ramps = [np.arange(n, n + 600, dtype=np.uint16).reshape(20, 30) for n in range(4)]
    content = as_samples(Pairs([Image.fromarray(r) for r in ramps], Y), "here").content
    assert (content.height, content.width, content.dtype) == (20, 30, "uint16")
    np.testing.assert_array_equal(content.pixels(2), ramps[2])


def test_a_dataset_of_hugging_face():
    pixels = np.arange(6, dtype=np.uint8).reshape(2, 3)
    cells = [{"bytes": encode(pixels + n), "path": None} for n in range(3)]
    table = pa.table({"image": cells, "label": [1, 0, 1]})
    features = {
        "image": type("Image", (), {})(),
        "label": type("ClassLabel", (), {"names": ["no", "yes"]})(),
    }
    samples = as_samples(Columns(table, features), "here")
    assert (samples.labels, samples.classes) == (("yes", "no", "yes"), ("no", "yes"))
    np.testing.assert_array_equal(samples.content.pixels(2), pixels + 2)


def test_a_function_is_called(write, monkeypatch):
    code = (
        "import pandas as pd\ndef make():\n    return pd.DataFrame({'a': [1, 2], 'label': [0, 1]})"
    )
    monkeypatch.syspath_prepend(write({"made_for_readers.py": code}))
    assert read("made_for_readers:make").content.frame["a"].tolist() == [1, 2]


class _Endless(IterableDataset):
    def __iter__(self):
        yield X[0], 0


WRONG = {
    "one part": ((X,), "has 1 parts"),
    "short labels": ((X, Y[:3]), "4 inputs but labels of shape 3"),
    "short ids": ((X, Y, [1, 2]), "4 inputs but ids of shape 2"),
    "labels for rows": ((pd.DataFrame({"a": [1]}), Y), "1 rows but 4 labels"),
    "square labels": ((X, np.zeros((4, 4))), "labels of shape 4x4"),
    "text for labels": ((X, "abba"), "labels or ids of type str"),
    "ragged": (([[1, 2], [3]], [0, 1]), "differ in shape"),
    "words": ((np.array([["a"], ["b"]]), [0, 1]), "not numbers"),
    "objects": ((np.array([[{}], [{}]]), [0, 1]), "not numbers"),
    "flat": ((np.zeros(4), Y), "1 dimension"),
    "sparse": ((sparse.eye(4).tocsr(), Y), "sparse matrix"),
    "sparse tensor": ((X.to_sparse(), Y), "sparse matrix"),
    "nothing": ((np.zeros((0, 3)), []), "no samples"),
    "number": (3, "is a int"),
    "array": (X.numpy(), "is a ndarray"),
    "dict": ({"inputs": X}, "is a dict"),
    "stream": (_Endless(), "only be gone through in order"),
    "items of three": (TensorDataset(X, X, X), r" is a tuple of 3; items must be"),
    "items are dicts": (
        Pairs.__new__(type("D", (Pairs,), {"__getitem__": lambda s, i: {}})),
        "dict",
    ),
    "empty dataset": (Pairs(X, []), "no samples"),
    "failing item": (Pairs(X[:0], Y), r" cannot be read \(IndexError"),
    "several labels": (Pairs(X, torch.zeros(4, 2)), "several numbers"),
    "palette": (Pairs([Image.new("P", (2, 2))] * 4, Y), "mode P"),
    "no column": (pd.DataFrame({"a": [1]}), r"no column 'label' \(it has a\)"),
    "lists beside labels": ((pd.DataFrame({"a": [[1]]}), [0]), "column 'a' .*list objects"),
    "two columns alike": ((pd.DataFrame([[1, 2]], columns=["a", "a"]), [0]), "two columns 'a'"),
    "lists in a column": (pd.DataFrame({"a": [[1]], "label": [0]}), "column 'a' .*list objects"),
    "splits": (type("S", (dict,), {"column_names": 0, "with_format": 0})(a=1), "splits a"),
}
WRONG["items are dicts"][0].__dict__.update(y=Y)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values(name):
    value, sentence = WRONG[name]
    with pytest.raises(DataError, match=sentence):
        as_samples(value, "here")


def test_items_of_other_shapes_are_named():
    ragged = as_samples(Pairs([X[0], X[1], X[2, :2], X[3]], Y), "here").content.inputs
    with pytest.raises(DataError, match=r"item 2 of here has the shape \(2,\).*item 0 has \(3,\)"):
        ragged.take(torch.tensor([1, 2]))
