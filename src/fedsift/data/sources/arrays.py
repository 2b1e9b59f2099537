"""numpy files: the inputs of a model as they are.

| file or folder          | arrays                                                        |
|-------------------------|---------------------------------------------------------------|
| ``x.npz``               | ``inputs``, ``labels``, optionally ``ids`` and ``class_names``|
| a folder with .npy files| the same names; ``inputs.npy`` is read when asked for         |

Nothing that needs pickle is loaded.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedsift.data.samples import Arrays, Samples
from fedsift.data.sources.file_rows import Array
from fedsift.data.sources.names import first_few, id_names, label_names
from fedsift.data.sources.options import ReadOptions
from fedsift.data.sources.stored import StoredParts, check_numbers, tensor
from fedsift.errors import DataError
from fedsift.problem.inputs import Inputs

ARRAYS = ("inputs", "labels", "ids", "class_names")
_BROKEN = (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, SyntaxError)


def read_npz(path: Path, options: ReadOptions) -> Samples:  # noqa: ARG001 - one form for all readers
    """Read an .npz file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            names = list(file.files)
            _check_names(names, str(path))
            arrays = {name: _plain(file, name, path) for name in ARRAYS if name in names}
    except DataError:
        raise
    except PermissionError:
        raise
    except (*_BROKEN, TypeError):  # a single array is no archive to be opened
        raise DataError(f"{path} is not a whole .npz file; save it with numpy.savez") from None
    check_numbers(arrays["inputs"], f"the array 'inputs' of {path}")
    return from_arrays(tensor(arrays["inputs"]), arrays, str(path))


def is_array_folder(path: Path) -> bool:
    """Tell a folder with inputs.npy or labels.npy."""
    return path.is_dir() and any((path / f"{name}.npy").exists() for name in ARRAYS[:2])


def read_array_folder(path: Path, options: ReadOptions) -> Samples:  # noqa: ARG001 - as above
    """Read labels.npy; leave inputs.npy in its file."""
    names = [name for name in ARRAYS if (path / f"{name}.npy").exists()]
    _check_names(names, str(path))
    arrays = {name: _mapped(path / f"{name}.npy") for name in names}
    return from_arrays(stored(arrays["inputs"], str(path / "inputs.npy")), arrays, str(path))


def from_arrays(inputs: Inputs, arrays: Mapping[str, Any], where: str) -> Samples:
    """Put inputs and the arrays ``labels``, ``ids`` and ``class_names`` together."""
    labels = arrays["labels"]
    given = arrays.get("class_names")
    classes = None if given is None else tuple(str(name) for name in given)
    for name, values in (("labels", labels), ("ids", arrays.get("ids"))):
        if values is not None and (getattr(values, "ndim", 1) != 1 or len(values) != len(inputs)):
            shape = "x".join(map(str, getattr(values, "shape", (len(values),))))
            raise DataError(
                f"{where} has {len(inputs)} inputs but {name} of shape {shape}; give one per sample"
            )
    if not len(inputs):
        raise DataError(f"{where} has no samples; a site needs some")
    ids = arrays.get("ids")
    return Samples(
        where,
        Arrays(inputs),
        label_names(labels, where, classes),
        None if ids is None else id_names(ids, where),
        classes,
    )


def stored(array: Array, where: str) -> StoredParts:
    """Leave an array where it is, as the inputs of samples."""
    return StoredParts.of([array], where)


def _check_names(names: list[str], where: str) -> None:
    for name in ARRAYS[:2]:
        if name not in names:
            raise DataError(
                f"{where} has no array {name!r}; it must hold 'inputs' and 'labels', it has "
                f"{first_few(names, 8) or 'none'}"
            )


def _plain(file: Any, name: str, path: Path) -> Array:
    try:
        array: Array = file[name]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise _pickled(f"the array {name!r} of {path}") from None
    return array


def _mapped(path: Path) -> Array:
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except PermissionError:
        raise
    except _BROKEN as error:
        if "Python objects" in str(error) or "allow_pickle" in str(error):
            raise _pickled(str(path)) from None
        raise DataError(f"{path} is not a whole .npy file; save it with numpy.save") from None
    return array


def _pickled(what: str) -> DataError:
    return DataError(
        f"{what} holds Python objects, which are not loaded; save plain numbers or text"
    )
