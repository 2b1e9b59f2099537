"""Encoded images for tests."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
from PIL import Image


def encode(pixels: np.ndarray | Image.Image, kind: str = "PNG", **options) -> bytes:
    """Write an image as Pillow does."""
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    buffer = io.BytesIO()
    image.save(buffer, format=kind, **options)
    return buffer.getvalue()


def raw_png(width: int, height: int, depth: int, colour: int, rows: bytes) -> bytes:
    """Write a PNG that Pillow would not: any header, any bytes behind it."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
