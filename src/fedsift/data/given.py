"""Samples as a user gives them to ``fs.simulate``: in any of the forms that people have.

| given                                          | inputs                                        |
|------------------------------------------------|-----------------------------------------------|
| (X, y), X a tensor, an array or lists          | a tensor                                      |
| (X, y), X a ``DataFrame`` of numbers           | a tensor; columns and index keep their names  |
| (X, y), X an ``np.memmap``                     | stay on disk                                  |
| (X, y), X stored inputs                        | stay where they are                           |
| ``torch.utils.data.Dataset`` of items (x, y)   | stay where they are                           |
| ``datasets.Dataset``                           | stay where they are                           |
| ``Samples`` with arrays                        | as they are                                   |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.sparse import issparse
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

from fedsift.data.labels import Labels, as_numbers, read_labels
from fedsift.data.samples import Arrays, Samples
from fedsift.data.sources import as_samples
from fedsift.data.sources.arrays import stored
from fedsift.data.sources.hub_dataset import is_hub_dataset
from fedsift.data.sources.stored import tensor
from fedsift.errors import DataError
from fedsift.memory import aligned
from fedsift.problem.inputs import Inputs, StoredInputs, as_type, select


@dataclass(frozen=True, eq=False)
class Given:
    """Inputs as numbers, labels as numbers or names, and what their owner calls them."""

    inputs: Inputs
    labels: Labels
    ids: tuple[Any, ...] | None = None
    columns: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None

    def part(self, rows: Tensor) -> Given:
        """Return some of the samples; stored inputs are not read."""
        at = rows.tolist()
        labels = (
            self.labels[rows]
            if isinstance(self.labels, Tensor)
            else tuple(self.labels[i] for i in at)
        )
        ids = None if self.ids is None else tuple(self.ids[i] for i in at)
        return replace(self, inputs=select(self.inputs, rows), labels=labels, ids=ids)


def read_given(value: Any, where: str) -> Given:
    """Return a site's samples; ``where`` names it in messages."""
    value = without_wrapper(value, where)
    if isinstance(value, Samples):
        return _from_samples(value, where)
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise DataError(
            f"{where} must be a pair (inputs, labels) or a dataset, not a {type(value).__name__}"
        )
    inputs, labels = value
    names, ids = _names_and_ids(inputs)
    return Given(read_inputs(inputs, where), read_labels(labels, where), ids, names)


def without_wrapper(value: Any, where: str) -> Any:
    """Return a dataset of torch or Hugging Face as samples, and anything else as it is."""
    if isinstance(value, TensorDataset) and len(value.tensors) == 2:
        return value.tensors
    if isinstance(value, Dataset) or is_hub_dataset(value):
        return as_samples(value, where)
    return value


def _from_samples(samples: Samples, where: str) -> Given:
    content = samples.content
    if not isinstance(content, Arrays):
        raise DataError(
            f"{where} has samples of the kind '{content.kind}', which are not numbers yet; read "
            "all sites and the validation set with fs.read"
        )
    return Given(
        content.inputs, as_numbers(samples.labels), samples.ids, content.names, samples.classes
    )


def read_inputs(values: Any, where: str) -> Inputs:
    """Return inputs as a tensor at an aligned address, or as stored inputs."""
    if isinstance(values, Tensor):
        return aligned(_numbers(values.detach(), where).cpu())
    if issparse(values):
        raise DataError(
            f"{where} has inputs in a sparse matrix; give .toarray(), or fewer columns by "
            "TruncatedSVD if that is too large"
        )
    if isinstance(values, pd.DataFrame):
        return aligned(torch.from_numpy(_table(values, where)))
    if _is_stored(values):
        return values  # type: ignore[no-any-return]
    array = _array(values, where)
    if _is_mapped(array):
        return stored(array, where)
    if array.dtype == np.float64:  # a model in double precision takes all of it
        return aligned(torch.from_numpy(np.array(array)))
    return tensor(array)


def matched(given: Given, like: Given, dtype: torch.dtype, where: str) -> Given:
    """Return samples with the columns and the type of the clean set; floats as ``dtype``.

    Whole numbers become floats where the clean set has floats: they came from the same table.
    """
    inputs = given.inputs
    if given.columns is not None and like.columns is not None and given.columns != like.columns:
        inputs = _ordered(inputs, given.columns, like.columns, where)
    floats = like.inputs.dtype.is_floating_point
    if inputs.dtype.is_floating_point and not floats:
        raise DataError(
            f"{where} has inputs of type {inputs.dtype} but the validation set has "
            f"{like.inputs.dtype}; give both the same type"
        )
    return replace(given, inputs=as_type(inputs, dtype) if floats else inputs, columns=like.columns)


def _ordered(inputs: Inputs, columns: tuple[str, ...], like: tuple[str, ...], where: str) -> Inputs:
    if differing := sorted({*columns} ^ {*like}):
        name = differing[0]
        who = f"{where} has" if name in columns else f"{where} lacks"
        other = "lacks" if name in columns else "has"
        raise DataError(
            f"{who} the column '{name}', which the validation set {other}; give all the same "
            "columns"
        )
    if not isinstance(inputs, Tensor):
        raise DataError(
            f"{where} has its columns in another order than the validation set; select them in the "
            f"order {', '.join(like[:10])}"
        )
    return inputs[:, [columns.index(name) for name in like]].contiguous()


def _names_and_ids(inputs: Any) -> tuple[tuple[str, ...] | None, tuple[Any, ...] | None]:
    if not isinstance(inputs, pd.DataFrame):
        return None, None
    index = inputs.index
    counted = isinstance(index, pd.RangeIndex) and index.equals(pd.RangeIndex(len(index)))
    return tuple(map(str, inputs.columns)), None if counted else tuple(index.tolist())


def _table(frame: pd.DataFrame, where: str) -> Any:
    """Return a table's numbers; a missing one is NaN."""
    if not frame.shape[1]:
        raise DataError(f"{where} has a table without columns; give at least one")
    twice = frame.columns[frame.columns.map(str).duplicated()]
    if len(twice):
        raise DataError(f"{where} has the column '{twice[0]}' twice; rename one")
    for name, kind in zip(frame.columns, frame.dtypes, strict=True):
        if not pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_complex_dtype(kind):
            raise DataError(
                f"{where} has the column '{name}' of type {kind}, which is no number; read the "
                "table with fs.read, which encodes such columns, or convert it"
            )
    return frame.to_numpy(np.float64, copy=True, na_value=np.nan)


def _numbers(values: Tensor, where: str) -> Tensor:
    if values.layout != torch.strided:
        raise DataError(f"{where} has inputs in a sparse tensor; give .to_dense()")
    if values.is_complex():
        raise DataError(f"{where} has complex inputs; give real and imaginary parts as two columns")
    return values.float() if values.dtype == torch.bool else values


def _array(values: Any, where: str) -> Any:
    try:
        array = np.asanyarray(values)
    except (TypeError, ValueError):
        array = np.array(None)
    if array.dtype.kind == "c":
        raise DataError(f"{where} has complex inputs; give real and imaginary parts as two columns")
    if array.dtype.kind not in "fiub":
        raise DataError(
            f"{where} has inputs that are not an array of numbers; give a tensor or an array of "
            "one shape per sample"
        )
    return array


def _is_stored(values: Any) -> bool:
    """Return whether values have the protocol; numpy's and pandas' arrays look similar."""
    return isinstance(values, StoredInputs) and isinstance(values.dtype, torch.dtype)


def _is_mapped(array: Any) -> bool:
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = getattr(array, "base", None)
    return False
