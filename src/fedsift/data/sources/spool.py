"""Arrays that come piece by piece and may not fit into memory.

Compressed pieces cannot be read row by row: a shuffled batch would decompress all of them. So what
exceeds ``HELD`` bytes is written out once, as plain numbers in a file, from which rows are read as
from any other array file. It is in the system's folder for temporary files (TMPDIR), without a name
as soon as it is open, and gone with the process.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from fedsift.data.sources.file_rows import Array, FileRows, file_rows
from fedsift.errors import DataError

HELD = 1 << 28


def spooled(pieces: Iterable[Array], where: str) -> list[Array | FileRows]:
    """Return the pieces as they are, or, where they are large, as one array in a file."""
    held: list[Array] = []
    coming = iter(pieces)
    for piece in coming:
        held.append(piece)
        if sum(part.nbytes for part in held) > HELD:
            return [_in_file(_alike(chain(held, coming), where), held[0])]
    return list(held)


def _alike(pieces: Iterable[Array], where: str) -> Iterator[Array]:
    first: Array | None = None
    for piece in pieces:
        first = piece[:0] if first is None else first
        if (piece.shape[1:], piece.dtype) != (first.shape[1:], first.dtype):
            raise DataError(f"{where} has inputs that differ in shape or type; give all the same")
        yield piece


def _in_file(pieces: Iterator[Array], like: Array) -> Array | FileRows:
    handle, name = tempfile.mkstemp(prefix="fedsift-")
    path, rows = Path(name), 0
    try:
        with os.fdopen(handle, "wb") as file:
            for piece in pieces:
                file.write(np.ascontiguousarray(piece).data)
                rows += len(piece)
    except OSError as error:
        path.unlink()
        raise DataError(
            f"there is no room in {path.parent} for the inputs of a compressed file "
            f"({error.strerror}); set TMPDIR to a folder with more"
        ) from None
    except BaseException:
        path.unlink()
        raise
    found = file_rows(np.memmap(path, like.dtype, "r", shape=(rows, *like.shape[1:])))
    if isinstance(found, FileRows):  # it has the file open
        path.unlink()
    else:
        weakref.finalize(found, path.unlink, missing_ok=True)
    return found
