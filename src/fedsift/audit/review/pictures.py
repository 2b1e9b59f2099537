"""Pictures of samples for the page: whole, small, and as numbers.

| reply    | is                                                                              |
|----------|---------------------------------------------------------------------------------|
| `whole`  | a PNG of the picture's own size                                                 |
| `small`  | a PNG with at most ``SIDE`` pixels a side, for the grid and for neighbours      |
| `raw`    | the values of the file, little-endian, for window and level                     |

8-bit values are drawn as they are; others from their darkest to their brightest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fedsift.data.images import png
from fedsift.data.samples import Content, Pixels

SIDE = 160


def whole(content: Content, index: int) -> bytes | None:
    """Draw a sample in its own size."""
    pixels = content.own_pixels(index)
    return content.picture(index) if pixels is None else _drawn(pixels)


def small(content: Content, index: int) -> bytes | None:
    """Draw a sample with few pixels."""
    pixels = content.own_pixels(index)
    return content.picture(index) if pixels is None else _drawn(shrunk(pixels, SIDE))


def raw(content: Content, index: int) -> tuple[dict[str, str], bytes] | None:
    """Return a description and the values of a picture, as uint8, uint16 or float32."""
    pixels = content.own_pixels(index)
    if pixels is None:
        return None
    kind = pixels.dtype.name if pixels.dtype.name in {"uint8", "uint16"} else "float32"
    values = np.ascontiguousarray(pixels, dtype=np.dtype(kind).newbyteorder("<"))
    height, width, channels = (*values.shape, 1)[:3]
    shape = {"Width": str(width), "Height": str(height), "Channels": str(channels)}
    return {**{f"X-{name}": text for name, text in shape.items()}, "X-Type": kind}, values.tobytes()


def shrunk(pixels: Pixels, side: int) -> npt.NDArray[Any]:
    """Average blocks of pixels until neither side is longer than ``side``."""
    block = -(-max(pixels.shape[:2]) // side)
    if block <= 1:
        return pixels
    starts = [np.arange(0, length, block) for length in pixels.shape[:2]]
    sums = np.add.reduceat(np.asarray(pixels, np.float64), starts[0], axis=0)
    sums = np.add.reduceat(sums, starts[1], axis=1)
    sizes = [np.diff([*s, n]) for s, n in zip(starts, pixels.shape[:2], strict=True)]
    counts = np.outer(*sizes).reshape(*sums.shape[:2], *(1,) * (sums.ndim - 2))
    mean = sums / counts
    return mean.round().astype(np.uint8) if pixels.dtype == np.uint8 else mean


def _drawn(pixels: Pixels) -> bytes:
    values = torch.from_numpy(np.ascontiguousarray(pixels, dtype=np.float32))
    image = values[None] if values.ndim == 2 else values.permute(2, 0, 1)
    # A low level: a picture of 4 million pixels takes 0.1 s and not 2 s, and goes nowhere.
    return png(image, span=(0.0, 255.0) if pixels.dtype == np.uint8 else None, level=1)
