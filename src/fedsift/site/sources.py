"""Where a site's (or the server's) samples and model come from.

| given | is read as |
|---|---|
| `x.npz` | the arrays `inputs` and `labels` |
| `x.parquet` | the column `label`; inputs are a list column `inputs`, else all number columns |
| a folder of parquet files | all of them, in order of their names |
| a folder of folders of images | one folder per class, named by number or listed in `classes.txt` |
| `module:function` | what the function returns: (inputs, labels), or for a model an `nn.Module` |

A class must have the same number at every site; hence the rule on names.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor, nn

from fedsift.data.parquet import require
from fedsift.errors import DataError, FedsiftError, InputError
from fedsift.memory import aligned
from fedsift.problem.networks import MODELS, build_model
from fedsift.randomness import derive

REFERENCE = re.compile(r"[\w.]+:\w+")
CLASSES = "classes.txt"
IMAGES = {".png", ".jpg", ".jpeg", ".bmp"}
Array = npt.NDArray[Any]


def load_samples(given: str) -> tuple[Tensor, Tensor]:
    """Return inputs and labels."""
    path = Path(given)
    if REFERENCE.fullmatch(given) and not path.exists():
        inputs, labels = _pair(call(given), given)
    elif not path.exists():
        raise DataError(f"there is no file or folder {given}; give a path or module:function")
    elif path.is_dir():
        inputs, labels = _folder(path)
    elif path.suffix == ".npz":
        inputs, labels = _npz(path)
    elif path.suffix == ".parquet":
        inputs, labels = _parquet(path)
    else:
        raise DataError(f"{given} is neither .npz nor .parquet nor a folder; convert it to one")
    return _tensors(inputs, labels, given)


def class_names(given: str) -> tuple[str, ...]:
    """Return the names of the classes, where a folder lists them; else nothing."""
    listing = Path(given) / CLASSES
    return tuple(listing.read_text(encoding="utf-8").splitlines()) if listing.is_file() else ()


def sample_names(given: str) -> list[str] | None:
    """Return the names of the samples' files, in order; None where samples are not files."""
    path = Path(given)
    if not path.is_dir() or any(path.glob("*.parquet")):
        return None
    return [str(file.relative_to(path)) for file in _image_files(path)]


def load_model(given: str, shape: tuple[int, ...]) -> Callable[[str, int, int], nn.Module]:
    """Return a function of (the server's name for the model, classes, seed) that makes the model.

    ``auto`` is the model that the server names.
    """
    if REFERENCE.fullmatch(given):
        return lambda _name, _classes, seed: _module(given, seed)
    if given != "auto" and given not in MODELS:
        raise InputError(
            f"there is no model '{given}'; give module:function or one of {', '.join(MODELS)}"
        )

    def build(name: str, classes: int, seed: int) -> nn.Module:
        chosen = name if given == "auto" else given
        if chosen not in MODELS:
            raise InputError(
                "the server uses a model of its own; join with --model module:function"
            )
        return build_model(chosen, shape, classes, seed)

    return build


def call(reference: str) -> Any:
    """Import ``module:function`` and call it."""
    module, _, name = reference.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"{reference} cannot be imported ({error}); start the command in its folder"
        ) from None
    try:
        return function()
    except FedsiftError:
        raise
    except Exception as error:
        raise InputError(f"{reference} failed: {type(error).__name__}: {error}") from error


def _module(reference: str, seed: int) -> nn.Module:
    """Call the function with torch's generators seeded; they are then as they were."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(derive(seed, "model"))
        module = call(reference)
    if not isinstance(module, nn.Module):
        raise InputError(f"{reference} returned a {type(module).__name__} and not an nn.Module")
    return module


def _pair(value: Any, where: str) -> tuple[Any, Any]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise DataError(f"{where} must return a pair (inputs, labels)")
    return value[0], value[1]


def _npz(path: Path) -> tuple[Array, Array]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return file["inputs"], file["labels"]
    except (KeyError, ValueError, OSError) as error:
        raise DataError(
            f"{path} must hold the arrays 'inputs' and 'labels' ({error}); save both in it"
        ) from None


def _parquet(path: Path) -> tuple[Array, Array]:
    try:
        table = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as parquet ({error}); write it again") from None
    if "label" not in table:
        raise DataError(
            f"{path} has no column 'label'; it has {', '.join(map(str, table.columns))}"
        )
    labels = table.pop("label").to_numpy()
    if "inputs" in table:
        return np.stack([_nested(row) for row in table["inputs"]]), labels
    numbers = table.select_dtypes("number")
    if numbers.shape[1] != table.shape[1] or numbers.empty:
        raise DataError(f"{path} must have a list column 'inputs' or only number columns")
    return numbers.to_numpy(np.float32), labels


def _nested(row: Any) -> Array:
    """Turn a list column's arrays of arrays into one array."""
    array = np.asarray(row)
    return np.stack([_nested(part) for part in array]) if array.dtype == object else array


def _folder(path: Path) -> tuple[Array, Array]:
    if files := sorted(path.glob("*.parquet")):
        parts = [_parquet(file) for file in files]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
    names, files = class_names(str(path)), _image_files(path)
    if not files:
        raise DataError(f"{path} has no parquet file and no folder of images; give one of the two")
    labels = [_class_number(file.parent, names) for file in files]
    images = [_image(file) for file in files]
    if len({image.shape for image in images}) > 1:
        raise DataError(f"the images in {path} differ in size; resize them to one")
    return np.stack(images), np.array(labels)


def _image_files(path: Path) -> list[Path]:
    folders = sorted(p for p in path.iterdir() if p.is_dir())
    return [f for d in folders for f in sorted(d.iterdir()) if f.suffix.lower() in IMAGES]


def _class_number(folder: Path, names: tuple[str, ...]) -> int:
    if folder.name not in names and not folder.name.isdigit():
        raise DataError(
            f"{folder} is a class whose number is not known; name folders 0, 1, ... or list the "
            f"classes in {folder.parent / CLASSES}"
        )
    return names.index(folder.name) if folder.name in names else int(folder.name)


def _image(path: Path) -> Array:
    try:
        with require("PIL.Image").open(path) as picture:
            grey = picture.mode in {"1", "L"}
            pixels = np.asarray(picture.convert("L" if grey else "RGB"), np.float32) / 255
    except OSError as error:
        raise DataError(f"{path} is not a readable image ({error}); remove it") from None
    return pixels[None] if grey else pixels.transpose(2, 0, 1)


def _tensors(inputs: Any, labels: Any, where: str) -> tuple[Tensor, Tensor]:
    try:
        x, y = (
            v if isinstance(v, Tensor) else torch.from_numpy(np.array(v)) for v in (inputs, labels)
        )
    except (TypeError, ValueError):
        raise DataError(
            f"{where} holds samples that are not an array of numbers; give a numeric array"
        ) from None
    x = x.float() if x.dtype == torch.float64 else x
    y = y.long() if not y.is_floating_point() and y.dtype != torch.bool else y
    return aligned(x), aligned(y)
