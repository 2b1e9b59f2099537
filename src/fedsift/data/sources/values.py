"""Samples from what a Python program has.

| value                                    | content                                           |
|------------------------------------------|---------------------------------------------------|
| `Samples`                                | as it is                                          |
| pandas DataFrame                         | `Table`, or `Pictures` where a column has paths   |
| (inputs, labels) or (inputs, labels, ids)| `Arrays`; a DataFrame as inputs: `Table`          |
| `datasets.Dataset` of Hugging Face       | by its columns, as its file would be              |
| `torch.utils.data.Dataset` of (x, y)     | `Arrays` that are read when asked for; `Pictures` |
|                                          | where x is a Pillow image                         |
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from fedsift.data.samples import Samples, Table
from fedsift.data.sources.arrays import from_arrays, stored
from fedsift.data.sources.frames import from_frame
from fedsift.data.sources.hub_dataset import from_hub_dataset, is_hub_dataset
from fedsift.data.sources.names import id_names, label_names
from fedsift.data.sources.options import ReadOptions
from fedsift.data.sources.stored import check_numbers, tensor
from fedsift.data.sources.torch_dataset import from_torch_dataset
from fedsift.errors import DataError
from fedsift.memory import aligned
from fedsift.problem.inputs import Inputs, StoredInputs

PLAIN_OPTIONS = ReadOptions()


def as_samples(value: Any, where: str, options: ReadOptions = PLAIN_OPTIONS) -> Samples:
    """Make samples of a value of any kind in the table above; ``where`` names it in messages."""
    if isinstance(value, Samples):
        return value
    if isinstance(value, pd.DataFrame):
        return from_frame(value, where, options)
    if isinstance(value, tuple | list):
        return _from_tuple(value, where, options)
    if is_hub_dataset(value):
        return from_hub_dataset(value, where, options)
    if isinstance(value, IterableDataset) or _has_no_length(value):
        raise DataError(
            f"{where} is a {type(value).__name__} that can only be gone through in order; give "
            "one with a length and items by number"
        )
    if isinstance(value, Dataset) or (hasattr(value, "__getitem__") and _is_own_class(value)):
        return from_torch_dataset(value, where)
    raise DataError(
        f"{where} is a {type(value).__name__}; give (inputs, labels), a DataFrame or a Dataset"
    )


def _has_no_length(value: Any) -> bool:
    return isinstance(value, Dataset) and not isinstance(value, Sized)


def _is_own_class(value: Any) -> bool:
    """Tell a user's class with items from arrays, texts and mappings, which are no datasets."""
    return isinstance(value, Sized) and not isinstance(value, np.ndarray | Tensor | str | dict)


def _from_tuple(value: Any, where: str, options: ReadOptions) -> Samples:
    if len(value) not in {2, 3}:
        raise DataError(
            f"{where} has {len(value)} parts; it must be (inputs, labels) or (inputs, labels, ids)"
        )
    inputs, labels, *ids = value
    parts = {"labels": _sized(labels, where), **({"ids": _sized(ids[0], where)} if ids else {})}
    if not isinstance(inputs, pd.DataFrame):
        return from_arrays(_inputs(inputs, where), parts, where)
    frame = inputs.set_axis([str(name) for name in inputs.columns], axis=1).reset_index(drop=True)
    frame = frame.drop(columns=[n for n in options.ignore_columns if n in frame])
    names = label_names(parts["labels"], where)
    if len(names) != len(frame):
        raise DataError(f"{where} has {len(frame)} rows but {len(names)} labels; give one per row")
    chosen = id_names(parts["ids"], where) if ids else None
    return Samples(where, Table(frame), names, chosen)


def _sized(values: Any, where: str) -> Any:
    if isinstance(values, Tensor):
        return values.detach().cpu().numpy()
    if not hasattr(values, "__len__") or isinstance(values, str | bytes | dict):
        raise DataError(
            f"{where} has labels or ids of type {type(values).__name__}; give a list or an array"
        )
    return values if hasattr(values, "shape") else list(values)


def _inputs(inputs: Any, where: str) -> Inputs:
    if isinstance(inputs, Tensor):
        if inputs.is_sparse or inputs.ndim < 2:
            raise _not_dense(where)
        return aligned(inputs)
    if isinstance(inputs, np.memmap):
        return stored(inputs, where)
    if not isinstance(inputs, np.ndarray) and isinstance(inputs, StoredInputs):
        return inputs  # an array of numpy has `take` too, another one
    if type(inputs).__module__.startswith("scipy.sparse"):
        raise _not_dense(where)
    try:
        array = np.asarray(inputs)
    except ValueError:
        raise DataError(f"{where} has inputs that differ in shape; give all the same") from None
    check_numbers(array, where)
    return tensor(array)


def _not_dense(where: str) -> DataError:
    return DataError(
        f"{where} has inputs that are a sparse matrix or one number per sample; give a dense "
        "array [n, ...]"
    )
