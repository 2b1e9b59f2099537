"""numpy files, against the arrays that were saved."""

import os

import numpy as np
import pytest
import torch

import fedsift as fs
from fedsift.data.sources.file_rows import FileRows
from fedsift.data.sources.stored import StoredParts
from fedsift.errors import DataError

INPUTS = np.arange(24.0).reshape(4, 2, 3)
LABELS = np.array([2, 0, 1, 0])
ROWS = torch.tensor([3, 0, 3])


def test_npz_has_names_and_ids(tmp_path):
    extra = {"ids": np.array(["p", "q", "r", "s"]), "class_names": np.array(["x", "y", "z"])}
    np.savez(tmp_path / "a.npz", inputs=INPUTS, labels=LABELS, **extra)
    samples = fs.read(tmp_path / "a.npz")
    assert torch.equal(samples.content.inputs, torch.from_numpy(INPUTS).float())
    assert samples.labels == ("z", "x", "y", "x")
    assert samples.ids == ("p", "q", "r", "s")
    assert samples.classes == ("x", "y", "z")


def test_a_folder_of_npy_stays_in_its_file(tmp_path):
    np.save(tmp_path / "inputs.npy", INPUTS)
    np.save(tmp_path / "labels.npy", np.array(["b", "a", "b", "b"]))
    samples = fs.read(tmp_path)
    inputs = samples.content.inputs
    assert isinstance(inputs, StoredParts)
    assert isinstance(inputs.parts[0], FileRows)
    assert (inputs.shape, inputs.dtype, len(inputs)) == ((4, 2, 3), torch.float32, 4)
    assert torch.equal(inputs.take(ROWS), torch.from_numpy(INPUTS).float()[ROWS])
    assert samples.labels == ("b", "a", "b", "b")


@pytest.mark.parametrize(
    ("stored", "given"),
    [
        (">f4", torch.float32),
        ("f2", torch.float32),
        ("?", torch.float32),
        ("u1", torch.uint8),
        ("u2", torch.int32),
        (">u2", torch.int32),
        ("u4", torch.int64),
        ("i8", torch.int64),
    ],
)
def test_numbers_are_of_a_type_that_models_take(stored, given):
    array = (
        np.arange(6).reshape(3, 2) % 2 if stored == "?" else np.arange(6).reshape(3, 2)
    ).astype(stored)
    inputs = StoredParts.of([array[:1], array[1:]], "here")
    taken = inputs.take(torch.tensor([2, 0]))
    assert taken.dtype == inputs.dtype == given
    assert taken.tolist() == array[[2, 0]].astype(float).tolist()
    assert taken.data_ptr() % 64 == 0


@pytest.mark.parametrize("dtype", [">f4", "<f8", "u1", "i8"])
def test_rows_of_a_file_are_those_of_numpy(tmp_path, dtype):
    array = np.random.default_rng(0).integers(0, 100, (50, 3, 2)).astype(dtype)
    np.save(tmp_path / "x.npy", array)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    rows = np.array([49, 0, 7, 7])
    np.testing.assert_array_equal(FileRows(mapped)[rows], array[rows])


@pytest.mark.parametrize("change", [lambda m: m[3:], lambda m: m.T, lambda m: m[:, 1:]])
def test_a_part_of_a_mapped_array_is_left_to_numpy(tmp_path, change):
    array = np.arange(20.0).reshape(10, 2)
    np.save(tmp_path / "x.npy", array)
    part = change(np.load(tmp_path / "x.npy", mmap_mode="r"))
    taken = StoredParts.of([part], "here").take(torch.tensor([1, 0]))
    assert taken.tolist() == change(array)[[1, 0]].tolist()


def test_what_is_written_to_a_map_is_seen(tmp_path):
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=(4, 3))
    inputs = StoredParts.of([mapped], "here")
    mapped[2] = 7
    assert inputs.take(torch.tensor([2])).tolist() == [[7, 7, 7]]


def test_a_file_that_is_cut_off_meanwhile_is_named(tmp_path):
    np.save(tmp_path / "x.npy", INPUTS)
    rows = FileRows(np.load(tmp_path / "x.npy", mmap_mode="r"))
    os.truncate(tmp_path / "x.npy", 200)
    with pytest.raises(DataError, match=r"x\.npy has been cut off"):
        rows[np.array([3])]
