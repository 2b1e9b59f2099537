"""Pictures, against numpy by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedsift.data.schema import Schema
from fedsift.errors import DataError
from fedsift.problem.inputs import StoredInputs
from schema_cases import mixed_frame, of_frame, of_pixels

RANDOM = np.random.default_rng(0)
PIXELS = {
    "8-bit grey": RANDOM.integers(0, 256, (6, 5, 4), dtype=np.uint8),
    "8-bit RGB": RANDOM.integers(0, 256, (6, 5, 4, 3), dtype=np.uint8),
    "16-bit grey": RANDOM.integers(0, 65536, (6, 5, 4), dtype=np.uint16),
    "float": RANDOM.normal(1000, 300, (6, 5, 4)).astype(np.float32),
}


@pytest.mark.parametrize("case", PIXELS)
def test_inputs_are_scaled_and_standardised_per_channel(case):
    pixels = PIXELS[case]
    inputs = Schema.fit(of_pixels(pixels)).inputs(of_pixels(pixels))
    x = pixels.astype(np.float64).reshape(6, 5, 4, -1).transpose(0, 3, 1, 2)
    expected = (x - x.mean((0, 2, 3), keepdims=True)) / x.std((0, 2, 3), keepdims=True)
    assert isinstance(inputs, StoredInputs)
    assert inputs.shape == expected.shape
    chosen = [4, 0, 4]
    np.testing.assert_allclose(inputs.take(torch.tensor(chosen)), expected[chosen], atol=2e-6)


@pytest.mark.parametrize(("case", "high"), [("8-bit grey", 255), ("16-bit grey", 65535)])
def test_the_range_is_the_pixel_types_and_not_the_clean_sets(case, high):
    preparation = Schema.fit(of_pixels(PIXELS[case] // 4)).preparation
    assert (preparation.low, preparation.high) == (0, high)
    np.testing.assert_allclose(preparation.mean[0], (PIXELS[case] // 4 / high).mean())


def test_the_range_of_floats_is_the_clean_sets():
    preparation = Schema.fit(of_pixels(PIXELS["float"])).preparation
    assert (preparation.low, preparation.high) == (PIXELS["float"].min(), PIXELS["float"].max())


def test_a_picture_is_decoded_only_when_it_is_taken():
    schema = Schema.fit(of_pixels(PIXELS["8-bit grey"]))
    seen = []
    samples = of_pixels(PIXELS["8-bit grey"])
    content = samples.content
    object.__setattr__(content, "pixels", lambda i: seen.append(i) or PIXELS["8-bit grey"][i])
    inputs = schema.inputs(samples)
    assert seen == []
    inputs.take(torch.tensor([2, 5]))
    assert seen == [2, 5]


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        (PIXELS["8-bit RGB"], "4x5 pixels, 8-bit RGB, and the clean set of 4x5 pixels, 8-bit grey"),
        (PIXELS["16-bit grey"], "16-bit grey, and the clean set of 4x5 pixels, 8-bit grey"),
        (PIXELS["8-bit grey"][:, :4], "4x4 pixels, 8-bit grey, and the clean set of 4x5"),
    ],
)
def test_pictures_that_are_not_as_the_clean_sets_are_refused(pixels, message):
    with pytest.raises(DataError, match=message):
        Schema.fit(of_pixels(PIXELS["8-bit grey"])).inputs(of_pixels(pixels))


def test_a_table_where_pictures_are_expected_is_refused():
    with pytest.raises(DataError, match="rows of a table where the clean set has pictures"):
        Schema.fit(of_pixels(PIXELS["8-bit grey"])).inputs(of_frame(mixed_frame()))


def test_pixels_that_are_not_finite_are_refused():
    schema, broken = Schema.fit(of_pixels(PIXELS["float"])), PIXELS["float"].copy()
    broken[3, 1, 1] = np.nan
    with pytest.raises(DataError, match="row 3 of pictures/ has pixels that are not finite"):
        schema.inputs(of_pixels(broken)).take(torch.arange(6))


def test_a_channel_of_one_value_is_named_and_stays_finite():
    pixels = PIXELS["8-bit RGB"].copy()
    pixels[..., 1] = 9
    schema = Schema.fit(of_pixels(pixels))
    assert schema.notes == ("channel 1 of the clean set's pictures is of one value",)
    np.testing.assert_allclose(
        schema.inputs(of_pixels(pixels)).take(torch.arange(6))[:, 1], 0, atol=1e-6
    )


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        (np.zeros((3, 4, 4), np.float32), "of one value"),
        (np.zeros((3, 4, 4), np.int32), "pictures of int32"),
    ],
)
def test_a_clean_set_without_usable_pictures_is_refused(pixels, message):
    with pytest.raises(DataError, match=message):
        Schema.fit(of_pixels(pixels))
