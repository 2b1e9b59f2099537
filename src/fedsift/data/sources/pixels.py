"""One image file: what its header says, and its pixels with the values of the file.

| mode of Pillow       | is          | array             |
|----------------------|-------------|-------------------|
| L                    | 8-bit grey  | uint8 [H, W]      |
| I;16, I;16B, I       | 16-bit grey | uint16 [H, W]     |
| RGB                  | 8-bit RGB   | uint8 [H, W, 3]   |
| F                    | float grey  | float32 [H, W]    |

Everything else is refused, not converted: a palette, transparency, CMYK, 1 bit, several pictures in
one file, and what Pillow itself would shorten while it reads (16 bits per colour, 64-bit floats).
A header may claim any size, so sizes are compared before anything is decoded. An image may be
turned by its EXIF data: it stays as it is stored.
"""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsift.data.parquet import require
from fedsift.errors import DataError

Encoded = Path | bytes
Size = tuple[int, int]  # height, width

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")
FORMATS = ("PNG", "JPEG", "BMP", "TIFF")
LARGEST = 1 << 26  # pixels; 8,192 x 8,192: a photograph has fewer, a bomb has more


@dataclass(frozen=True)
class PixelType:
    """What one pixel is."""

    name: str
    channels: int
    dtype: str


GREY8, GREY16 = PixelType("8-bit grey", 1, "uint8"), PixelType("16-bit grey", 1, "uint16")
RGB, FLOAT = PixelType("8-bit RGB", 3, "uint8"), PixelType("float grey", 1, "float32")
TYPES = {
    "L": GREY8,
    "I;16": GREY16,
    "I;16B": GREY16,
    "I;16L": GREY16,
    "I": GREY16,
    "RGB": RGB,
    "F": FLOAT,
}
_SHORTENED = {  # how a file stores a pixel, where Pillow would change its value without a word
    "RGB": ("16", "16 bits per colour"),
    "F": ("64", "64 bits per value"),
}


@dataclass(frozen=True)
class Header:
    """Size and pixel type of an image."""

    height: int
    width: int
    pixel: PixelType

    @property
    def size(self) -> Size:
        """Height and width."""
        return self.height, self.width


def read_header(image: Encoded, where: str) -> Header:
    """Read an image's header; refuse one whose pixels could not be kept as they are."""
    try:
        with warnings.catch_warnings(), _open(image) as picture:
            warnings.simplefilter("ignore")  # Pillow's own, about what is refused below
            width, height = picture.size
            problem = _problem(picture)
            pixel = TYPES.get(picture.mode, GREY8)
    except DataError:
        raise
    except Exception as error:  # Pillow has no common type for a broken image
        raise _unreadable(where, image, error) from error
    if problem:
        raise DataError(f"{where} is an image {problem}")
    if width * height > LARGEST:
        raise _too_large(where)
    return Header(height, width, pixel)


def read_pixels(
    image: Encoded, where: str, header: Header, size: Size | None = None
) -> npt.NDArray[Any]:
    """Decode an image that must be as ``header`` says; resize it if a size is given."""
    try:
        with _open(image) as picture:
            found = TYPES.get(picture.mode), picture.size[::-1]
            fits = found == (header.pixel, header.size)
            array = np.asarray(picture) if fits else None
    except DataError:
        raise
    except Exception as error:
        raise _unreadable(where, image, error) from error
    if array is None:
        raise DataError(f"{where} has changed since it was first read; start again")
    if header.pixel is GREY16 and array.dtype != np.uint16:
        array = _sixteen_bits(array, where)
    array = resized(array, size) if size and size != header.size else array
    return array.astype(header.pixel.dtype, copy=False)  # native order of bytes


def resized(array: npt.NDArray[Any], size: Size) -> npt.NDArray[Any]:
    """Resize [H, W] or [H, W, 3] by averaging over the pixels that a new one covers."""
    image, (height, width) = require("PIL.Image"), size
    bilinear = image.Resampling.BILINEAR
    planes = np.asarray(array, np.float32).reshape(*array.shape[:2], -1)
    scaled = [
        np.asarray(image.fromarray(planes[:, :, c].copy()).resize((width, height), bilinear))
        for c in range(planes.shape[2])
    ]
    result = np.stack(scaled, -1).reshape(height, width, *array.shape[2:])
    if np.issubdtype(array.dtype, np.integer):
        limits = np.iinfo(array.dtype)
        result = result.round().clip(limits.min, limits.max)
    return result.astype(array.dtype)


def _open(image: Encoded) -> Any:
    return require("PIL.Image").open(
        io.BytesIO(image) if isinstance(image, bytes) else image, formats=FORMATS
    )


def _problem(picture: Any) -> str | None:
    """Return what is in the way of reading an image as it is, and what to do."""
    stored = picture.tile[0][3] if picture.tile else ""
    stored = stored if isinstance(stored, str) else str(stored[0])
    marker, found = _SHORTENED.get(picture.mode, ("none", ""))
    if getattr(picture, "n_frames", 1) > 1:
        return f"file with {picture.n_frames} pictures; save one of them alone"
    if picture.mode not in TYPES:
        return f"of mode {picture.mode}; save it as grey (8 or 16 bits), RGB or float TIFF"
    if "transparency" in picture.info:
        return f"of mode {picture.mode} with transparency; save it without"
    if marker in stored:
        return f"of mode {picture.mode} with {found}; save it as 8-bit RGB, grey or float TIFF"
    return None


def _sixteen_bits(array: npt.NDArray[Any], where: str) -> npt.NDArray[np.uint16]:
    low, high = int(array.min()), int(array.max())
    if low < 0 or high > 0xFFFF:
        raise DataError(
            f"{where} has values from {low} to {high}, beyond 16 bits; save it as a float TIFF"
        )
    return array.astype(np.uint16)


def _too_large(where: str) -> DataError:
    return DataError(
        f"{where} claims to have more than {LARGEST} pixels, which is not allowed; make it smaller "
        "or remove it"
    )


def _unreadable(where: str, image: Encoded, error: Exception) -> DataError:
    if type(error).__name__ == "DecompressionBombError":
        return _too_large(where)
    if isinstance(image, Path) and not image.exists():
        return DataError(f"{where} does not exist; correct its path or restore the file")
    if isinstance(error, PermissionError):
        return DataError(f"{where} may not be read by this user; change its permissions")
    return DataError(
        f"{where} is not a readable image, it is damaged, cut off or of another format than PNG, "
        "JPEG, BMP and TIFF; save it again or remove it"
    )
