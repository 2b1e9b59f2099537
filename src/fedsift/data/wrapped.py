"""Samples that others read: mapped arrays, datasets of torch and of Hugging Face as stored inputs.

| class           | wraps                                        | reads                        |
|-----------------|----------------------------------------------|------------------------------|
| `MappedInputs`  | ``np.memmap``, and views of one              | rows, as numpy does          |
| `ItemInputs`    | ``torch.utils.data.Dataset``, items (x, y)   | item by item                 |
| `ColumnInputs`  | ``datasets.Dataset``, or what looks like one | a list of rows at once       |

Labels are read once, at the start: they are small. ``datasets`` is never imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset

from fedsift.errors import DataError, FedsiftError
from fedsift.problem.inputs import Shape

LABELS = ("label", "labels")
# Types that torch has no arithmetic for, and those that do.
NATIVE = {"u2": "i4", "u4": "i8", "u8": "i8", "b1": "f4", "f2": "f4", "f16": "f8"}


def native(array: Any) -> Any:
    """Return an array of numbers in a type that models take; booleans as 0 and 1."""
    kind = f"{array.dtype.kind}{array.dtype.itemsize}"
    return array.astype(NATIVE.get(kind, kind), copy=False)


@dataclass(frozen=True, eq=False)
class MappedInputs:
    """An array on disk: rows are copied when they are read."""

    array: Any

    def __len__(self) -> int:
        return len(self.array)

    @property
    def shape(self) -> Shape:
        """Shape of the array."""
        return tuple(self.array.shape)

    @property
    def dtype(self) -> torch.dtype:
        """Type of the numbers as they are read."""
        return torch.from_numpy(native(np.zeros(0, self.array.dtype))).dtype

    def take(self, indices: Tensor) -> Tensor:
        """Read these rows."""
        rows = np.ascontiguousarray(self.array[indices.numpy()])
        return torch.from_numpy(native(rows))


@dataclass(frozen=True, eq=False)
class ItemInputs:
    """The first parts of a dataset's items (x, y)."""

    dataset: Any
    shape: Shape
    dtype: torch.dtype
    where: str

    @classmethod
    def of(cls, dataset: Any, where: str) -> ItemInputs:
        """Read the first item to know shape and type."""
        first = _tensor(_item(dataset, 0, where)[0], 0, where)
        return cls(dataset, (len(dataset), *first.shape), first.dtype, where)

    def __len__(self) -> int:
        return self.shape[0]

    def take(self, indices: Tensor) -> Tensor:
        """Read these items."""
        found = [
            _tensor(_item(self.dataset, i, self.where)[0], i, self.where) for i in _list(indices)
        ]
        return _stacked(found, indices, self)


@dataclass(frozen=True, eq=False)
class ColumnInputs:
    """One column of arrays, or several of numbers side by side."""

    dataset: Any
    columns: tuple[str, ...]
    shape: Shape
    dtype: torch.dtype
    where: str

    @classmethod
    def of(cls, dataset: Any, columns: Sequence[str], where: str) -> ColumnInputs:
        """Read the first row to know shape and type."""
        first = _rows(dataset, [0], columns, where)[0]
        return cls(dataset, tuple(columns), (len(dataset), *first.shape), first.dtype, where)

    def __len__(self) -> int:
        return self.shape[0]

    def take(self, indices: Tensor) -> Tensor:
        """Read these rows."""
        found = _rows(self.dataset, _list(indices), self.columns, self.where)
        return _stacked(found, indices, self)


def is_column_dataset(value: Any) -> bool:
    """Return whether this looks like a ``datasets.Dataset``."""
    return all(hasattr(value, name) for name in ("column_names", "features", "__getitem__"))


def read_items(dataset: Dataset[Any], where: str) -> tuple[ItemInputs, list[Any]]:
    """Return inputs that stay where they are, and all labels."""
    check_length(dataset, where)
    inputs = ItemInputs.of(dataset, where)
    known = _targets(dataset)
    if known is not None:
        labels = [_plain(label) for label in known]
        tried = {0, len(labels) // 3, len(labels) // 2, len(labels) - 1}
        if all(labels[i] == _plain(_item(dataset, i, where)[1]) for i in tried):
            return inputs, labels
    return inputs, [_plain(_item(dataset, i, where)[1]) for i in range(len(inputs))]


def read_columns(
    dataset: Any, where: str
) -> tuple[ColumnInputs, list[Any], tuple[str, ...] | None]:
    """Return inputs that stay where they are, all labels, and the classes where they have names."""
    check_length(dataset, where)
    names = list(dataset.column_names)
    label = next((name for name in LABELS if name in names), None)
    others = [name for name in names if name != label]
    if label is None or not others:
        raise DataError(
            f"{where} is a dataset with the columns {', '.join(map(str, names))}; it needs 'label' "
            "and at least one for the inputs"
        )
    labels = [_plain(value) for value in dataset[label]]
    classes = getattr(dataset.features[label], "names", None)
    inputs = ColumnInputs.of(dataset, others, where)
    return inputs, labels, None if classes is None else tuple(map(str, classes))


def check_length(dataset: Any, where: str) -> None:
    """Raise a ``DataError`` unless samples of the dataset have numbers."""
    try:
        count = len(dataset)
    except (TypeError, NotImplementedError):
        raise DataError(
            f"{where} is a dataset without a length; give one with __len__ and __getitem__"
        ) from None
    if not count:
        raise DataError(f"{where} has no samples; leave it out or give it some")


def _targets(dataset: Any) -> Any | None:
    """Return labels that can be had without reading inputs, by the custom of torchvision."""
    if isinstance(dataset, Subset):
        known = _targets(dataset.dataset)
        return None if known is None else [known[i] for i in dataset.indices]
    known = getattr(dataset, "targets", None)
    if getattr(dataset, "target_transform", None) is not None:
        return None
    if not isinstance(known, Tensor | np.ndarray | list | tuple):
        return None
    return known if len(known) == len(dataset) else None


def _item(dataset: Any, index: int, where: str) -> Sequence[Any]:
    item = _read(dataset, index, where)
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise DataError(
            f"{where} is a dataset whose sample {index} is not a pair (input, label); make it give "
            "pairs"
        )
    return item


def _rows(dataset: Any, indices: list[int], columns: Sequence[str], where: str) -> list[Tensor]:
    rows = _read(dataset, indices, where)
    values = [
        [_tensor(v, i, where) for v, i in zip(rows[n], indices, strict=True)] for n in columns
    ]
    if len(columns) == 1:
        return values[0]
    if any(value.ndim for column in values for value in column):
        raise DataError(
            f"{where} has the columns {', '.join(columns)} and some of them are not numbers; keep "
            "one column of arrays, or read it with fs.read"
        )
    wide = [column[0].dtype for column in values]
    kind = torch.float32 if any(t.is_floating_point for t in wide) else torch.int64
    kind = torch.float64 if torch.float64 in wide else kind
    return [torch.stack([value.to(kind) for value in row]) for row in zip(*values, strict=True)]


def _read(dataset: Any, index: int | list[int], where: str) -> Any:
    try:
        return dataset[index]
    except FedsiftError:
        raise
    except Exception as error:  # a user's own code may raise anything
        first = index if isinstance(index, int) else index[0]
        reason = next(iter(str(error).splitlines()), "")
        raise DataError(
            f"{where} cannot read sample {first} ({type(error).__name__}: {reason}); correct the "
            "dataset"
        ) from error


def _tensor(value: Any, index: int, where: str) -> Tensor:
    """Return an input as a tensor of numbers."""
    if isinstance(value, Tensor):
        tensor = value.detach().cpu()
        return tensor.float() if tensor.dtype in {torch.bool, torch.float16} else tensor
    try:
        array = None if hasattr(value, "getbands") else np.array(value)
    except (TypeError, ValueError):
        array = None
    if array is None or array.dtype.kind not in "iufb":
        raise DataError(
            f"{where} has an input of type {type(value).__name__} in sample {index}; make it an "
            "array or a tensor of numbers"
        )
    return torch.from_numpy(native(array))


def _stacked(found: list[Tensor], indices: Tensor, like: ItemInputs | ColumnInputs) -> Tensor:
    for index, value in zip(_list(indices), found, strict=True):
        if value.shape != like.shape[1:] or value.dtype != like.dtype:
            raise DataError(
                f"{like.where} has an input of shape {list(value.shape)} and {value.dtype} in "
                f"sample {index} but one of {list(like.shape[1:])} and {like.dtype} in sample 0; "
                "give all inputs one shape and type"
            )
    return torch.stack(found) if found else torch.empty(0, *like.shape[1:], dtype=like.dtype)


def _list(indices: Tensor) -> list[int]:
    found: list[int] = indices.tolist()
    return found


def _plain(label: Any) -> Any:
    """Return the label of a tensor or of numpy's scalars."""
    single = isinstance(label, Tensor | np.ndarray | np.generic) and np.prod(label.shape) == 1
    return label.item() if single else label
