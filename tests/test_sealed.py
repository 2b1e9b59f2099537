"""Tensors with a hash: what is read is what was written, or a sentence says that it is not."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from fedsift import sealed
from fedsift.errors import InputError

TENSORS = {
    "a": torch.arange(6.0).reshape(2, 3),
    "b": torch.tensor(3, dtype=torch.int64),
    "none": torch.zeros(0),
    "flags": torch.tensor([True, False]),
    "half": torch.ones(3, dtype=torch.bfloat16),
}


@pytest.fixture
def path(tmp_path):
    sealed.save(tmp_path / "x.safetensors", TENSORS, {"round": 3})
    return tmp_path / "x.safetensors"


def test_what_was_written_is_read(path):
    tensors, meta = sealed.load(path, "a file")
    assert meta == {"round": 3}
    assert tensors.keys() == TENSORS.keys()
    for name, value in TENSORS.items():
        assert tensors[name].dtype == value.dtype
        assert torch.equal(tensors[name], value)
    assert torch.equal(load_file(path)["a"], TENSORS["a"])  # any reader of the format can open it


@pytest.mark.fault(
    "a bit flipped in every byte of a checkpoint",
    "refused, or a bit of the header's padding and the same content",
)
def test_every_flipped_bit_is_refused_or_changes_nothing(path, record_property):
    whole = path.read_bytes()
    refused = 0
    record_property("trials", len(whole))
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        try:
            tensors, meta = sealed.load(path, "a file")
        except InputError:
            refused += 1
        else:  # a space in the header, for example
            assert meta == {"round": 3}
            assert all(torch.equal(tensors[n], v) for n, v in TENSORS.items())
    assert refused > 0.95 * len(whole)


@pytest.mark.parametrize("length", [0, 1, 8, 9, 100, -1])
def test_a_truncated_file_is_refused(path, length):
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(InputError, match=r"x\.safetensors is not a file, or is damaged"):
        sealed.load(path, "a file")


def test_a_file_without_a_hash_is_refused(tmp_path):
    save_file(TENSORS, tmp_path / "x.safetensors")
    with pytest.raises(InputError, match="is not a file"):
        sealed.load(tmp_path / "x.safetensors", "a file")
