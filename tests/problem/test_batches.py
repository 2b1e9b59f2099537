"""A stored batch against the same samples in memory."""

import pytest
import torch

from fedsift.problem import TensorBatch, batch_of, chunks
from fedsift.problem.protocol import chunk_length, part_of
from fedsift.randomness import generator
from stored import Watched

SHAPES = {"rows": (9, 5), "images": (9, 3, 4, 2), "one pixel": (9, 3, 1, 1), "numbers": (9,)}
LABELS = torch.arange(9) % 3


def batches(shape):
    inputs = torch.randn(shape, generator=generator(0, "batches"))
    return batch_of(Watched(inputs), LABELS), batch_of(inputs, LABELS)


@pytest.mark.parametrize("shape", SHAPES)
def test_samples_labels_layout_and_address_are_those_of_a_batch_in_memory(shape):
    found, expected = (b.take(torch.tensor([7, 2, 3])) for b in batches(SHAPES[shape]))
    for name in ("inputs", "labels", "positions"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        assert torch.equal(ours, theirs)
        assert ours.stride() == theirs.stride()
    assert found.inputs.data_ptr() % 64 == 0


@pytest.mark.parametrize("size", [4, 9, 20])
def test_chunks_are_in_memory_and_together_the_batch(size):
    stored, held = batches(SHAPES["images"])
    for ours, theirs in zip(chunks(stored, size), chunks(held, size), strict=True):
        assert torch.equal(ours.inputs, theirs.inputs)
        assert torch.equal(ours.positions, theirs.positions)


def test_a_part_is_not_read_until_it_is_taken():
    stored, held = batches(SHAPES["rows"])
    at = torch.tensor([8, 1, 5, 0])
    part = part_of(stored, at)
    assert (stored.inputs.reads, len(part)) == (0, 4)
    again = part.take(torch.tensor([2, 0]))
    assert torch.equal(again.inputs, held.inputs[[5, 8]])
    assert again.labels.tolist() == [2, 2]
    assert again.positions.tolist() == [5, 8]


@pytest.mark.parametrize("shape", [(4, 20), (4, 784), (4, 3, 32, 32), (4,), (0, 3)])
def test_chunks_of_stored_samples_are_as_long_as_in_memory(shape):
    held = torch.zeros(shape)
    labels = torch.zeros(len(held), dtype=torch.int64)
    assert chunk_length(batch_of(Watched(held), labels)) == chunk_length(batch_of(held, labels))


def test_chunks_of_plain_tensors_are_as_long_as_those_of_samples():
    inputs, labels = torch.zeros(300, 64), torch.zeros(300, dtype=torch.int64)
    assert (
        chunk_length(TensorBatch((inputs, labels))) == chunk_length(batch_of(inputs, labels)) > 64
    )
