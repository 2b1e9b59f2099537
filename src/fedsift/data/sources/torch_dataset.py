"""A map-style ``torch.utils.data.Dataset`` as samples: items are read when they are asked for.

Labels are read once: from ``.targets`` or ``.labels`` where these hold what the items hold, else
from the items. Names of classes come from ``.classes``, as torchvision has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Subset, TensorDataset

from fedsift.data.samples import Arrays, Pictures, Samples
from fedsift.data.sources.names import Names, label_names
from fedsift.data.sources.pixels import TYPES
from fedsift.data.sources.stored import check_numbers, tensor
from fedsift.errors import DataError
from fedsift.problem.inputs import Shape


@dataclass(frozen=True, eq=False)
class DatasetInputs:
    """The x of a dataset's items, as inputs of samples."""

    dataset: Any
    where: str
    shape: Shape
    dtype: torch.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def take(self, indices: Tensor) -> Tensor:
        """Read these items, in this order."""
        rows = [self._item(int(index)) for index in indices]
        return torch.stack(rows) if rows else torch.empty(0, *self.shape[1:], dtype=self.dtype)

    def _item(self, index: int) -> Tensor:
        x = _tensor(item(self.dataset, index, self.where)[0], index, self.where)
        if tuple(x.shape) != self.shape[1:]:
            raise DataError(
                f"item {index} of {self.where} has the shape {tuple(x.shape)} and item 0 has "
                f"{self.shape[1:]}; all must have one shape"
            )
        return x


def from_torch_dataset(dataset: Any, where: str) -> Samples:
    """Wrap a dataset whose items are (x, y)."""
    count = len(dataset)
    if not count:
        raise DataError(f"{where} has no samples; a site needs some")
    first = item(dataset, 0, where)
    labels = _labels(dataset, first[1], where)
    classes = _classes(dataset, labels)
    names = label_names(labels, where, classes)
    if _is_picture(first[0]):
        return Samples(where, _pictures(dataset, first[0], where), names, classes=classes)
    x = _tensor(first[0], 0, where)
    inputs = DatasetInputs(dataset, where, (count, *x.shape), x.dtype)
    return Samples(where, Arrays(inputs), names, classes=classes)


def item(dataset: Any, index: int, where: str) -> tuple[Any, Any]:
    """Return an item (x, y)."""
    try:
        found = dataset[index]
    except Exception as error:  # a user's code may raise anything
        raise DataError(
            f"item {index} of {where} cannot be read ({type(error).__name__}: {error}); look at "
            "its __getitem__"
        ) from error
    if not isinstance(found, tuple | list) or len(found) != 2:
        size = f" of {len(found)}" if isinstance(found, tuple | list) else ""
        raise DataError(
            f"item {index} of {where} is a {type(found).__name__}{size}; items must be (x, y)"
        )
    return found[0], found[1]


def _labels(dataset: Any, first: Any, where: str) -> list[Any]:
    known = _known_labels(dataset)
    if known is not None and len(known) == len(dataset) and known[0] == _scalar(first, where):
        return known
    return [_scalar(item(dataset, index, where)[1], where) for index in range(len(dataset))]


def _known_labels(dataset: Any) -> list[Any] | None:
    """Return labels that can be had without the items; a transform makes others of them."""
    if isinstance(dataset, Subset):
        whole = _known_labels(dataset.dataset)
        return None if whole is None else [whole[index] for index in dataset.indices]
    if getattr(dataset, "target_transform", None) is not None:
        return None
    held = dataset.tensors[-1] if isinstance(dataset, TensorDataset) else None
    for values in (held, getattr(dataset, "targets", None), getattr(dataset, "labels", None)):
        if isinstance(values, Tensor | np.ndarray) and values.ndim == 1:
            return list(values.tolist())
        if isinstance(values, list | tuple):
            return list(values)
    return None


def _scalar(value: Any, where: str) -> Any:
    if isinstance(value, Tensor | np.ndarray | np.generic):
        if value.size != 1 if not isinstance(value, Tensor) else value.numel() != 1:
            raise DataError(f"{where} has labels of several numbers; a label is one class")
        return value.item()
    return value


def _classes(dataset: Any, labels: Sequence[Any]) -> Names | None:
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    names = getattr(dataset, "classes", None)
    named = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    numbered = all(isinstance(label, int) and not isinstance(label, bool) for label in labels)
    return tuple(names) if names and named and numbered else None


def _tensor(x: Any, index: int, where: str) -> Tensor:
    where = f"item {index} of {where}"
    if isinstance(x, Tensor):
        found = x.detach().cpu()
        return found.float() if found.dtype in {torch.float64, torch.float16} else found
    try:
        array = np.asarray(x)[None]
    except ValueError:
        raise DataError(f"{where} is not an array of numbers; give one") from None
    check_numbers(array if array.ndim > 1 else array[None], where)
    return tensor(array)[0]


def _is_picture(x: Any) -> bool:
    return type(x).__module__.startswith("PIL.")


def _pictures(dataset: Any, first: Any, where: str) -> Pictures:
    pixel = TYPES.get(first.mode)
    if pixel is None:
        raise DataError(
            f"item 0 of {where} is an image of mode {first.mode}; convert it to L, I;16, RGB or F"
        )
    size, mode = first.size, first.mode

    def pixels(index: int) -> npt.NDArray[Any]:
        found = item(dataset, index, where)[0]
        if not _is_picture(found) or (found.size, found.mode) != (size, mode):
            raise DataError(
                f"item {index} of {where} differs from item 0 ({mode}, {size[1]}x{size[0]}) in "
                "mode or size; give all alike"
            )
        return np.asarray(found).astype(pixel.dtype, copy=False)

    return Pictures(len(dataset), size[1], size[0], pixel.channels, pixel.dtype, pixels)
