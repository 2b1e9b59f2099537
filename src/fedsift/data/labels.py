"""Labels as users have them: numbers of classes, or names that get numbers here.

| given                                       | read as                               |
|---------------------------------------------|---------------------------------------|
| integers                                    | numbers of classes, as they are       |
| strings, categories of these                | names of classes                      |
| booleans                                    | the names "true" and "false"          |
| floats, missing values, anything else       | refused                               |

Names are numbered in the order of ``class_names``; without it in sorted order, over all sites, the
clean set and the test set together, so that a name has one number everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fedsift.errors import DataError
from fedsift.memory import aligned

Labels = Tensor | tuple[str, ...]


def read_labels(values: Any, where: str) -> Labels:
    """Return integers as a tensor and all else that can be a label as names."""
    array = _array(values)
    if array.ndim == 1 and array.dtype.kind in "Of":
        _refuse_missing(array, where)
    if array.ndim == 1 and array.dtype.kind == "O":
        array = _plain(array)
    if array.size == 0 or array.dtype.kind in "iu":
        return aligned(torch.from_numpy(array.astype(np.int64)))
    if array.dtype.kind in "fc":
        raise DataError(
            f"{where} has labels of type {_type(values, array)}; labels must be integers or names, "
            "so convert them, for example with .astype(int)"
        )
    if array.dtype.kind not in "bU" or array.ndim != 1:
        raise DataError(
            f"{where} has labels that are not an array of integers or names; give one label per "
            "input"
        )
    names = (str(name) for name in array.tolist())
    return tuple(name.lower() if array.dtype.kind == "b" else name for name in names)


def as_numbers(names: tuple[str, ...]) -> Labels:
    """Return labels that are the text of whole numbers as these numbers, others as they are."""
    if not all(name.isdecimal() and str(int(name)) == name for name in names):
        return names
    return torch.tensor([int(name) for name in names], dtype=torch.int64)


def names_of_classes(
    parts: Mapping[str, Labels], given: Sequence[str] | None, known: Sequence[str] | None
) -> tuple[str, ...] | None:
    """Return the names of all classes; None where labels are numbers that nobody has named.

    ``given`` is the user's order, ``known`` what a source says of it.
    """
    named = [where for where, labels in parts.items() if isinstance(labels, tuple)]
    plain = [where for where in parts if where not in named]
    if named and plain:
        raise DataError(
            f"{named[0]} has names or booleans as labels but {plain[0]} has numbers; give names "
            "everywhere, or numbers"
        )
    if given is not None:
        return tuple(map(str, given))
    if known is not None:
        return tuple(known)
    found = {name for labels in parts.values() if isinstance(labels, tuple) for name in labels}
    if not found:
        return None
    numbers = all(name.isdecimal() for name in found)
    return tuple(sorted(found, key=(lambda name: (int(name), name)) if numbers else None))


def numbered(labels: Labels, names: Sequence[str] | None, where: str) -> Tensor:
    """Return the number of each label's class."""
    if isinstance(labels, Tensor):
        return labels
    number = {name: n for n, name in enumerate(names or ())}
    unknown = next((j for j, name in enumerate(labels) if name not in number), None)
    if unknown is not None:
        raise DataError(
            f"{where} has the label '{labels[unknown]}' in sample {unknown}, which is not among "
            f"the classes {_listed(number)}; correct the label or name the class"
        )
    return torch.tensor([number[name] for name in labels], dtype=torch.int64)


def check_outputs(names: Sequence[str], outputs: int, given: bool) -> None:
    """Raise a ``DataError`` unless the model has one output for every class."""
    count = len(set(names))
    if count == outputs == len(names):
        return
    if given:
        raise DataError(f"class_names has {count} names for {outputs} classes; give one per class")
    raise DataError(
        f"the labels have the {count} classes {_listed(names)} but the model has {outputs} "
        "outputs; change its last layer, or give class_names with all classes in order"
    )


def _array(values: Any) -> Any:
    """Return labels as numpy has them; a list as objects, since numpy makes text of mixed ones."""
    try:
        if isinstance(values, Tensor):
            return values.detach().cpu().to_dense().numpy()
        if isinstance(values, list | tuple):
            single = [v.item() if isinstance(v, Tensor | np.generic) else v for v in values]
            return np.array(single, dtype=object)
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError):
        return np.array(None)


def _refuse_missing(array: Any, where: str) -> None:
    missing = pd.isna(array)
    if missing.any():
        raise DataError(
            f"{where} has no label in sample {int(missing.nonzero()[0][0])}; leave the sample out"
        )


def _plain(array: Any) -> Any:
    """Return objects that are all text, all booleans or all numbers as an array of these."""
    kinds = {type(value) for value in array}
    families = ((str,), (bool, np.bool_), (int, np.integer), (int, float, np.number))
    for family in families:
        logical = bool in family
        if all(issubclass(k, family) and (logical or k is not bool) for k in kinds):
            return np.array(array.tolist())
    return array


def _type(values: Any, array: Any) -> str:
    return str(values.dtype if isinstance(values, Tensor) else array.dtype)


def _listed(names: Sequence[str] | Mapping[str, int]) -> str:
    shown = ", ".join(list(names)[:10])
    return shown if len(names) <= 10 else f"{shown}, ..."
