"""Many images as one content: all of one size and one pixel type, decoded when asked for.

Reading looks at headers only. With ``skip_unreadable`` each image is decoded once, because only
that shows a file that is cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fedsift.data.samples import Pictures
from fedsift.data.sources.names import first_few
from fedsift.data.sources.options import ReadOptions
from fedsift.data.sources.pixels import Encoded, Header, Size, read_header, read_pixels
from fedsift.errors import DataError


@dataclass(frozen=True)
class Images:
    """Encoded images: all in turn for their headers, any of them by its row, and its name."""

    each: Callable[[], Iterable[Encoded | None]]
    at: Callable[[int], Encoded | None]
    name: Callable[[int], str]
    about: Callable[[int], Mapping[str, Any]]


@dataclass(frozen=True)
class Gallery:
    """The pictures, the rows they come from, and what was left out."""

    content: Pictures
    rows: tuple[int, ...]
    notes: tuple[str, ...]


def gallery(images: Images, where: str, options: ReadOptions) -> Gallery:
    """Look at all headers and return what can be read of these images."""
    headers: dict[int, Header] = {}
    left: list[str] = []
    for row, image in enumerate(images.each()):
        try:
            headers[row] = _checked(image, images.name(row), options)
        except DataError as error:
            if not options.skip_unreadable:
                raise DataError(f"{error}, or leave such images out with --skip-unreadable") from (
                    error.__cause__
                )
            left.append(images.name(row))
    if not headers:
        raise DataError(f"{where} has no image that can be read; look at {first_few(left)}")
    _check_alike(headers, images.name, options)
    rows = tuple(headers)
    notes = [f"{len(left)} images are left out, they cannot be read: {first_few(left)}"]
    return Gallery(_pictures(images, headers, options), rows, tuple(notes if left else ()))


def encoded(image: Encoded | None, where: str) -> Encoded:
    """Return an image that is there."""
    if image is None or image == b"":
        raise DataError(f"{where} has no image; remove the row")
    return image


def _checked(image: Encoded | None, where: str, options: ReadOptions) -> Header:
    image = encoded(image, where)
    header = read_header(image, where)
    if options.skip_unreadable:
        read_pixels(image, where, header)
    return header


def _check_alike(
    headers: Mapping[int, Header], name: Callable[[int], str], options: ReadOptions
) -> None:
    first, expected = next(iter(headers.items()))
    for row, header in headers.items():
        if header.pixel != expected.pixel:
            raise DataError(
                f"{name(first)} is {expected.pixel.name} and {name(row)} is {header.pixel.name}; "
                "save all images with one pixel type"
            )
        if header.size != expected.size and options.image_size is None:
            sizes = ["x".join(map(str, h.size)) for h in (expected, header)]
            raise DataError(
                f"{name(first)} is {sizes[0]} and {name(row)} is {sizes[1]} (height x width); "
                f"give --image-size {sizes[0]} or resize them to one size"
            )


def _pictures(images: Images, headers: Mapping[int, Header], options: ReadOptions) -> Pictures:
    rows, first = tuple(headers), next(iter(headers.values()))
    height, width = options.image_size or first.size

    def pixels(index: int, size: Size | None = options.image_size) -> Any:
        row = rows[index]
        where = images.name(row)
        image = encoded(images.at(row), where)
        return read_pixels(image, where, headers[row], size)

    return Pictures(
        count=len(rows),
        height=height,
        width=width,
        channels=first.pixel.channels,
        dtype=first.pixel.dtype,
        pixels=pixels,
        about=lambda index: images.about(rows[index]),
        original=lambda index: pixels(index, None),
    )
