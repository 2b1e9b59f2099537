"""A user's own samples, from files, folders and functions.

``FORMATS`` has a row for each format: how it is recognised, how it is read, and a line of help.
A new format is one module and one row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from fedsift.data.samples import Samples
from fedsift.data.sources.arrays import (
    is_array_folder,
    read_array_folder,
    read_npz,
)
from fedsift.data.sources.arrow_file import is_saved_dataset, read_arrow, read_saved_dataset
from fedsift.data.sources.csv_file import SUFFIXES as CSV
from fedsift.data.sources.csv_file import read_csv
from fedsift.data.sources.description import describe
from fedsift.data.sources.functions import read_function
from fedsift.data.sources.image_folder import is_image_folder, read_image_folder
from fedsift.data.sources.options import ReadOptions, image_size
from fedsift.data.sources.parquet_file import is_parquet_folder, read_parquet
from fedsift.data.sources.values import PLAIN_OPTIONS, as_samples
from fedsift.errors import DataError
from fedsift.references import REFERENCE

__all__ = [
    "FORMATS",
    "Format",
    "ReadOptions",
    "as_samples",
    "describe",
    "formats",
    "image_size",
    "is_readable",
    "read",
]


@dataclass(frozen=True)
class Format:
    """A kind of file or folder."""

    name: str
    recognise: Callable[[Path], bool]
    read: Callable[[Path, ReadOptions], Samples]
    help: str


def _ends(*suffixes: str) -> Callable[[Path], bool]:
    return lambda path: not path.is_dir() and path.name.lower().endswith(suffixes)


FORMATS = (  # the first that recognises a path reads it
    Format("csv", _ends(*CSV), read_csv, "a file .csv, .tsv, .csv.gz: a header and rows"),
    Format("parquet", _ends(".parquet"), read_parquet, "a file, also with images in a column"),
    Format("arrow", _ends(".arrow", ".feather"), read_arrow, "a file .arrow or .feather"),
    Format("npz", _ends(".npz"), read_npz, "arrays inputs and labels, also ids and class_names"),
    Format(
        "save_to_disk",
        is_saved_dataset,
        read_saved_dataset,
        "a folder that Hugging Face datasets wrote",
    ),
    Format(
        "npy folder",
        is_array_folder,
        read_array_folder,
        "inputs.npy and labels.npy, read when needed",
    ),
    Format("parquet folder", is_parquet_folder, read_parquet, "parquet files, in order of names"),
    Format(
        "image folder",
        is_image_folder,
        read_image_folder,
        "a folder of PNG, JPEG, BMP or TIFF files for each class",
    ),
)
FUNCTION = ("module:function", "returns (inputs, labels), a DataFrame or a Dataset")


def formats() -> dict[str, str]:
    """Return what can be read, and what is said of it."""
    return dict([*((row.name, row.help) for row in FORMATS), FUNCTION])


def read(where: str | Path, options: ReadOptions = PLAIN_OPTIONS) -> Samples:
    """Read a file, a folder or what ``module:function`` returns."""
    path = Path(where)
    try:
        if _is_reference(where):
            return read_function(str(where), options)
        _check_there(path)
        return _format(path).read(path, options)
    except PermissionError as error:
        name = error.filename or path
        raise DataError(f"{name} may not be read by this user; change its permissions") from error
    except (pa.ArrowException, UnicodeError) as error:
        raise DataError(f"{path} is damaged, its columns cannot be read; write it again") from error
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        raise DataError(f"{path} cannot be read ({reason}); look at the disk") from error


def is_readable(where: str) -> bool:
    """Tell what names a file, a folder or a function from a plain word."""
    return _is_reference(where) or Path(where).exists() or bool({"/", "\\", "."} & set(where))


def _is_reference(where: str | Path) -> bool:
    return bool(REFERENCE.fullmatch(str(where))) and not Path(where).exists()


def _check_there(path: Path) -> None:
    if path.is_symlink() and not path.exists():
        raise DataError(f"{path} is a link to {path.readlink()}, which is not there; correct it")
    if not path.exists():
        raise DataError(f"there is no file or folder {path}; give a path or module:function")
    if path.is_file() and not path.stat().st_size:
        raise DataError(f"{path} is empty, it has no bytes; write it again")


def _format(path: Path) -> Format:
    for row in FORMATS:
        if row.recognise(path):
            return row
    known = ", ".join(row.name for row in FORMATS)
    if not path.is_dir():
        raise DataError(f"{path} is of no format that is known ({known}); convert it to one")
    if any(path.iterdir()):
        raise DataError(
            f"{path} has no file that is known and no folder of images; put the images of each "
            "class into a folder named by it, or give a file"
        )
    raise DataError(f"{path} is an empty folder; give one with samples")
