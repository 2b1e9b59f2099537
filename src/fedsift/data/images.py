"""A sample as a picture: PNG from a tensor and back, with zlib only.

Inputs are standardised by a constant that the audit does not know, so the darkest value of an image
is drawn black and the brightest white, unless a span is given.
"""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, RGB = 0, 2
HEADER = struct.Struct(">IIBBBBB")


def png(image: Tensor, span: tuple[float, float] | None = None, level: int = 9) -> bytes:
    """Draw one image [C, H, W]; ``span`` are the values of black and white."""
    channels, height, width = image.shape
    values = image.detach().cpu().double()
    low, high = (float(values.min()), float(values.max())) if span is None else span
    scaled = (values - low) / (high - low) if high > low else torch.zeros_like(values)
    pixels = (255 * scaled.clamp(0, 1)).round().to(torch.uint8).permute(1, 2, 0)
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # a row begins with its filter: none
    rows[:, 1:] = pixels.reshape(height, -1).numpy()
    header = HEADER.pack(width, height, 8, GREY if channels == 1 else RGB, 0, 0, 0)
    data = zlib.compress(rows.tobytes(), level)
    parts = ((b"IHDR", header), (b"IDAT", data), (b"IEND", b""))
    return SIGNATURE + b"".join(_chunk(*part) for part in parts)


def pixels_of(picture: bytes) -> npt.NDArray[np.uint8]:
    """Return the pixels of a PNG that ``png`` drew: [H, W] or [H, W, 3]."""
    width, height, _, colour, *_ = HEADER.unpack_from(picture, 16)
    (length,) = struct.unpack_from(">I", picture, 33)
    rows = np.frombuffer(zlib.decompress(picture[41 : 41 + length]), np.uint8)
    rows = rows.reshape(height, -1)[:, 1:]
    return rows if colour == GREY else rows.reshape(height, width, 3)


def as_uri(picture: bytes) -> str:
    """Return a PNG as a data URI for a page."""
    return "data:image/png;base64," + base64.b64encode(picture).decode("ascii")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
