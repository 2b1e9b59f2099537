"""numpy files, against the arrays that were saved."""

import numpy as np
import pytest
import torch

import fedsift as fs
from fedsift.data.sources.stored import StoredParts

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


def test_a_folder_of_npy_is_mapped_and_not_read(tmp_path):
    np.save(tmp_path / "inputs.npy", INPUTS)
    np.save(tmp_path / "labels.npy", np.array(["b", "a", "b", "b"]))
    samples = fs.read(tmp_path)
    inputs = samples.content.inputs
    assert isinstance(inputs, StoredParts)
    assert isinstance(inputs.parts[0], np.memmap)
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
