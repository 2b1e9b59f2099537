"""PNG files against Pillow's reading of them."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from fedsift.data.images import png


@pytest.mark.parametrize("channels", [1, 3])
def test_pillow_reads_the_same_pixels(channels):
    pixels = torch.randint(0, 256, (channels, 5, 7), generator=torch.Generator().manual_seed(1))
    pixels[0, 0, 0], pixels[0, 0, 1] = 0, 255
    drawn = np.asarray(Image.open(io.BytesIO(png(pixels / 51 - 2.5))))
    np.testing.assert_array_equal(drawn.reshape(5, 7, channels), pixels.permute(1, 2, 0).numpy())


def test_a_flat_image_is_black():
    assert not np.asarray(Image.open(io.BytesIO(png(torch.full((1, 3, 3), 0.7))))).any()
