from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from fedsift.data.samples import Arrays, Samples
from fedsift.data.schema import Schema
from fedsift.errors import DataError


def of_tensor(inputs, where="site.npz"):
    return Samples(where, Arrays(inputs), tuple(str(i % 2) for i in range(len(inputs))))


@dataclass(frozen=True)
class Stored:
    """Inputs behind ``take``."""

    tensor: torch.Tensor

    def __len__(self):
        return len(self.tensor)

    @property
    def shape(self):
        return tuple(self.tensor.shape)

    @property
    def dtype(self):
        return self.tensor.dtype

    def take(self, indices):
        return self.tensor[indices]


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64, torch.bool])
def test_floats_become_float32(kind):
    values = torch.tensor([[0.0, 1.0], [1.0, 1.0]])
    schema = Schema.fit(of_tensor(values.to(kind)))
    torch.testing.assert_close(schema.inputs(of_tensor(values.to(kind))), values, rtol=0, atol=0)


@pytest.mark.parametrize("kind", [torch.int64, torch.int32, torch.uint8])
def test_whole_numbers_stay_whole(kind):
    words = torch.tensor([[3, 1], [2, 0]], dtype=kind)
    schema = Schema.fit(of_tensor(words))
    assert schema.inputs(of_tensor(words)).dtype == kind
    assert schema.preparation.inputs_kind == "integers"


def test_whole_numbers_at_a_site_are_floats_where_the_clean_set_has_floats():
    schema = Schema.fit(of_tensor(torch.rand(4, 3)))
    result = schema.inputs(of_tensor(torch.ones(2, 3, dtype=torch.int64)))
    assert result.dtype == torch.float32


def test_stored_inputs_are_converted_when_they_are_taken():
    values = torch.rand(5, 3, dtype=torch.float64)
    inputs = Schema.fit(of_tensor(values)).inputs(of_tensor(Stored(values)))
    assert (inputs.shape, inputs.dtype) == ((5, 3), torch.float32)
    assert torch.equal(inputs.take(torch.tensor([4, 1])), values[[4, 1]].float())


@pytest.mark.parametrize(
    ("clean", "site", "message"),
    [
        (torch.rand(4, 3), torch.rand(4, 2), r"shape \[2\], and the clean set of \[3\]"),
        (torch.ones(4, 3, dtype=torch.int64), torch.rand(4, 3), "fractions"),
    ],
)
def test_arrays_that_are_not_as_the_clean_sets_are_refused(clean, site, message):
    with pytest.raises(DataError, match=message):
        Schema.fit(of_tensor(clean)).inputs(of_tensor(site))


def test_complex_numbers_are_refused():
    with pytest.raises(DataError, match="complex64"):
        Schema.fit(of_tensor(torch.zeros(4, 3, dtype=torch.complex64)))
