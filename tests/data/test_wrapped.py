"""Datasets and mapped arrays as stored inputs."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Subset

from fedsift.data.wrapped import MappedInputs, read_columns, read_items
from fedsift.errors import DataError
from given import Columns, Items, N, X, Y

SOME = torch.tensor([7, 0, 7])
PAIRS = [(torch.from_numpy(x), int(y)) for x, y in zip(X, Y, strict=True)]


class Counting(Items):
    """Counts reads; labels are in ``targets``, as in torchvision."""

    def __init__(self, items, targets):
        super().__init__(items)
        self.targets, self.reads = targets, 0

    def __getitem__(self, index):
        self.reads += 1
        return super().__getitem__(index)


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        ("<f4", torch.float32),
        (">f4", torch.float32),
        ("f2", torch.float32),
        ("f8", torch.float64),
        ("u1", torch.uint8),
        ("u2", torch.int32),
        ("i8", torch.int64),
        ("?", torch.float32),
    ],
)
def test_mapped_rows_are_those_of_the_file(tmp_path, stored, read):
    values = (np.arange(24).reshape(8, 3) % 5).astype(stored)
    values.tofile(tmp_path / "x.bin")
    inputs = MappedInputs(np.memmap(tmp_path / "x.bin", stored, "r", shape=(8, 3)))
    assert (len(inputs), inputs.shape, inputs.dtype) == (8, (8, 3), read)
    found = inputs.take(SOME)
    assert found.dtype == read
    np.testing.assert_array_equal(found, values[SOME].astype(float))


def test_items_are_read_when_they_are_asked_for():
    inputs, labels = read_items(Items(PAIRS), "here")
    assert (len(inputs), inputs.shape, inputs.dtype) == (N, (N, 2), torch.float32)
    np.testing.assert_array_equal(inputs.take(SOME), X[SOME])
    assert labels == Y.tolist()


@pytest.mark.parametrize("wrap", [lambda d: d, lambda d: Subset(d, range(N))])
def test_targets_spare_a_dataset_from_being_read(wrap):
    dataset = Counting(PAIRS, torch.from_numpy(Y))
    assert read_items(wrap(dataset), "here")[1] == Y.tolist()
    assert dataset.reads <= 5


@pytest.mark.parametrize("change", ["other labels", "a transform"])
def test_targets_that_items_do_not_have_are_not_taken(change):
    dataset = Counting(PAIRS, (Y if change == "a transform" else Y[::-1]).tolist())
    dataset.target_transform = abs if change == "a transform" else None
    assert read_items(dataset, "here")[1] == Y.tolist()
    assert dataset.reads > N


def test_columns_beside_the_label_are_the_inputs():
    dataset = Columns(a=X[:, 0].tolist(), b=Y.tolist(), label=Y.tolist())
    inputs, labels, classes = read_columns(dataset, "here")
    np.testing.assert_allclose(inputs.take(SOME), np.stack([X[:, 0], Y], axis=1)[SOME])
    assert (inputs.columns, labels, classes) == (("a", "b"), Y.tolist(), None)


def test_a_label_column_may_know_its_classes():
    dataset = Columns(x=list(X), labels=Y.tolist())
    dataset.features["labels"] = type("ClassLabel", (), {"names": ["ant", "bee", "cat"]})
    assert read_columns(dataset, "here")[2] == ("ant", "bee", "cat")


def test_a_picture_without_a_transform_is_refused():
    dataset = Items([(Image.new("L", (2, 2)), 0)])
    with pytest.raises(DataError, match="here has an input of type Image in sample 0; make"):
        read_items(dataset, "here")
