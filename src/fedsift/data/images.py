"""A sample as a picture: PNG from a tensor, with zlib only.

Inputs are standardised by a constant that the audit does not know, so the darkest value of an image
is drawn black and the brightest white.
"""

from __future__ import annotations

import base64
import struct
import zlib

import torch
from torch import Tensor

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, RGB = 0, 2


def png(image: Tensor) -> bytes:
    """Draw one image [C, H, W]."""
    channels, height, width = image.shape
    values = image.detach().cpu().double()
    low, high = values.min(), values.max()
    scaled = (values - low) / (high - low) if high > low else torch.zeros_like(values)
    pixels = (255 * scaled).round().to(torch.uint8).permute(1, 2, 0).reshape(height, -1)
    rows = b"".join(b"\0" + row.numpy().tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, GREY if channels == 1 else RGB, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return SIGNATURE + b"".join(_chunk(*part) for part in parts)


def as_uri(picture: bytes) -> str:
    """Return a PNG as a data URI for a page."""
    return "data:image/png;base64," + base64.b64encode(picture).decode("ascii")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
