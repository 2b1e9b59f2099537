"""Stored inputs against the tensor that they hold."""

import pytest
import torch

from fedsift.errors import DataError
from fedsift.problem.inputs import as_type, parts, sample, select, take, whole
from fedsift.randomness import generator
from stored import Watched

TENSOR = torch.randn(7, 2, 3, generator=generator(0, "inputs"))
FORMS = pytest.mark.parametrize("wrap", [lambda x: x, Watched], ids=["tensor", "stored"])
SOME = torch.tensor([5, 0, 5])


@FORMS
def test_samples_are_those_of_the_tensor(wrap):
    inputs = wrap(TENSOR)
    assert torch.equal(take(inputs, SOME), TENSOR[SOME])
    assert torch.equal(sample(inputs, 3), TENSOR[3])
    assert torch.equal(whole(inputs), TENSOR)
    assert [len(part) for part in parts(inputs, 3)] == [3, 3, 1]
    assert torch.equal(torch.cat(list(parts(inputs, 3))), TENSOR)


@FORMS
def test_a_part_of_a_part_is_a_part(wrap):
    mask = torch.arange(7) % 2 == 0
    part = select(select(wrap(TENSOR), mask), torch.tensor([3, 1]))
    assert torch.equal(whole(part), TENSOR[[6, 2]])
    assert (tuple(part.shape), part.dtype, len(part)) == ((2, 2, 3), torch.float32, 2)


@FORMS
def test_another_type_has_the_same_numbers(wrap):
    inputs = as_type(wrap(TENSOR), torch.float64)
    assert torch.equal(take(inputs, SOME), TENSOR[SOME].double())
    assert (len(inputs), tuple(inputs.shape), inputs.dtype) == (7, (7, 2, 3), torch.float64)
    assert as_type(inputs, torch.float64) is inputs


def test_naming_a_part_reads_nothing():
    stored = Watched(TENSOR)
    as_type(select(stored, SOME), torch.float64)
    assert stored.reads == 0


@pytest.mark.parametrize("wrong", [TENSOR[:2], TENSOR[:3, :1], TENSOR[:3].double()])
def test_a_reader_that_gives_something_else_is_named(wrong):
    stored = Watched(TENSOR)
    stored.take = lambda indices: wrong
    with pytest.raises(DataError, match=r"for 3 samples of torch\.float32.*correct their reader"):
        take(stored, SOME)
