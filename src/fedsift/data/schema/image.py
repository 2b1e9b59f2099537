"""Pictures: scaled to [0, 1] by the pixel type, then standardised per channel.

    x = (pixel - low) / (high - low),    input = (x - mean_c) / std_c

low and high are 0 and 255 or 65535; of float pictures, the clean set's darkest and brightest value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedsift.data.samples import Pictures, Samples
from fedsift.data.schema.decoding import ADVICE, decode
from fedsift.data.schema.preparation import SchemaSettings, Workspace, expect, sample
from fedsift.errors import DataError, InputError
from fedsift.problem.ahead import at_once
from fedsift.problem.inputs import Inputs, Shape

RANGES = {"uint8": (0.0, 255.0), "uint16": (0.0, 65535.0)}
FLAT = 1e-9  # of the range: what is left of a constant by rounding
TYPES = {"uint8": "8-bit", "uint16": "16-bit", "float32": "float"}


@dataclass(frozen=True)
class ImagePreparation:
    """Size and pixel type that every site's pictures must have, and how they are scaled."""

    kind: ClassVar[str] = "image"
    channels: int
    height: int
    width: int
    dtype: str
    low: float
    high: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        lengths = {len(self.mean), len(self.std)}
        fits = min(self.shape) >= 1 and lengths == {self.channels} and self.low < self.high
        if not fits or min(self.std) <= 0 or self.dtype not in TYPES:
            raise InputError(
                "the preparation of images must have a size, a pixel type, low below high, and a "
                f"mean and a positive std per channel; {ADVICE}"
            )

    @property
    def shape(self) -> Shape:
        """Shape of one input."""
        return (self.channels, self.height, self.width)

    @property
    def inputs_kind(self) -> str:
        """Kind of inputs, for ``default_model``."""
        return "image"

    @classmethod
    def fit(
        cls,
        clean: Samples,
        settings: SchemaSettings,  # noqa: ARG003
        workspace: Workspace,  # noqa: ARG003
    ) -> tuple[Self, tuple[str, ...]]:
        """Read every picture of the clean set once, or twice where they are of floats."""
        expect(clean.content, "image", clean.where)
        pictures = cast("Pictures", clean.content)
        if pictures.dtype not in TYPES:
            raise DataError(
                f"{clean.where} has pictures of {pictures.dtype}; save them as 8-bit, 16-bit or "
                "32-bit float pictures"
            )
        low, high = RANGES.get(pictures.dtype) or _range(clean)
        if low == high:
            raise DataError(f"every picture of {clean.where} is of one value; give other pictures")
        mean, std = _moments(clean, low, high)
        flat = [c for c, s in enumerate(std) if s < FLAT]
        notes = tuple(f"channel {c} of the clean set's pictures is of one value" for c in flat)
        size = (pictures.channels, pictures.height, pictures.width, pictures.dtype)
        return cls(*size, low, high, mean, tuple(1.0 if s < FLAT else s for s in std)), notes

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Make it from what ``to_json`` returned."""
        return decode(cls, value, "preparation")

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)

    def inputs(self, samples: Samples, workspace: Workspace) -> Inputs:  # noqa: ARG002
        """Return inputs that are decoded when they are taken."""
        expect(samples.content, "image", samples.where)
        theirs = cast("Pictures", samples.content)
        ours = _described(self.width, self.height, self.channels, self.dtype)
        found = _described(theirs.width, theirs.height, theirs.channels, theirs.dtype)
        if ours != found:
            raise DataError(
                f"{samples.where} has pictures of {found}, and the clean set of {ours}; convert "
                "them to the clean set's"
            )
        return DecodedPictures(self, samples)

    def unseen(self, samples: Samples) -> list[str]:  # noqa: ARG002
        """Return nothing: a picture either fits or is refused."""
        return []


@dataclass(frozen=True, eq=False)
class DecodedPictures:
    """Pictures that are decoded and scaled when they are taken."""

    concurrent: ClassVar[bool] = True
    preparation: ImagePreparation
    samples: Samples

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def shape(self) -> Shape:
        """Number of samples, then the shape of one input."""
        return (len(self), *self.preparation.shape)

    @property
    def dtype(self) -> torch.dtype:
        """Type of the numbers."""
        return torch.float32

    def take(self, indices: Tensor) -> Tensor:
        """Decode these pictures, in this order; they stay bytes until all are there."""
        p = self.preparation
        wanted = indices.tolist()
        raw = np.empty((len(wanted), p.height, p.width, p.channels), p.dtype)

        def decode_at(place: int) -> None:
            raw[place] = _pixels(self.samples, wanted[place])

        at_once(decode_at, len(wanted))
        mean, std = (torch.tensor(v) for v in (p.mean, p.std))
        x = torch.from_numpy(raw.astype(np.float32))
        return x.sub_(p.low).div_(p.high - p.low).sub_(mean).div_(std).permute(0, 3, 1, 2)


def _pixels(samples: Samples, index: int) -> npt.NDArray[Any]:
    """Decode one picture as [H, W, C]; the size is what the samples promise."""
    pictures = cast("Pictures", samples.content)
    pixels = np.asarray(pictures.pixels(index))
    image = pixels[:, :, None] if pixels.ndim == 2 else pixels
    expected = (pictures.height, pictures.width, pictures.channels)
    if image.shape != expected:
        raise DataError(
            f"the picture in {sample(samples, index)} of {samples.where} is [H, W, C] = "
            f"{list(image.shape)} and not {list(expected)} as the others; convert it"
        )
    if image.dtype.kind == "f" and not np.isfinite(image).all():
        raise DataError(
            f"the picture in {sample(samples, index)} of {samples.where} has pixels that are not "
            "finite numbers; correct it or take it out"
        )
    return image


def _all(clean: Samples) -> Iterator[npt.NDArray[np.float64]]:
    for index in range(len(clean)):
        yield _pixels(clean, index).astype(np.float64)


def _range(clean: Samples) -> tuple[float, float]:
    ends = [(image.min(), image.max()) for image in _all(clean)]
    return float(min(low for low, _ in ends)), float(max(high for _, high in ends))


def _moments(
    clean: Samples, low: float, high: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation per channel; all pictures have the same size."""
    scaled = ((image - low) / (high - low) for image in _all(clean))
    sums = [(image.mean(axis=(0, 1)), image.var(axis=(0, 1))) for image in scaled]
    means, variances = (np.stack(part) for part in zip(*sums, strict=True))
    std = np.sqrt(variances.mean(axis=0) + means.var(axis=0))
    return tuple(means.mean(axis=0).tolist()), tuple(std.tolist())


def _described(width: int, height: int, channels: int, dtype: str) -> str:
    colour = {1: "grey", 3: "RGB"}.get(channels, f"{channels} channels")
    return f"{width}x{height} pixels, {TYPES.get(dtype, dtype)} {colour}"
