"""What a person sees of samples that were given in memory, kept beside their audit.

    clients/<site>/samples.parquet   a column per field; `picture`, a PNG, where there is one

Samples that came from files are not kept: they are read again from where they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fedsift.data.samples import Content
from fedsift.errors import InputError
from fedsift.files import write_atomically

FILE, PICTURE = "samples.parquet", "picture"


@dataclass(frozen=True, eq=False)
class ShownSamples:
    """A content that was kept."""

    kind: ClassVar[str] = "shown"
    frame: pd.DataFrame

    def __len__(self) -> int:
        return len(self.frame)

    def fields(self, index: int) -> dict[str, Any]:
        """Return the fields by name; what is missing is None."""
        row = self.frame.iloc[index].to_dict()
        row.pop(PICTURE, None)
        return {str(name): None if pd.isna(v) else v for name, v in row.items()}

    def picture(self, index: int) -> bytes | None:
        """Return the picture."""
        if PICTURE not in self.frame:
            return None
        kept: bytes | None = self.frame[PICTURE].iloc[index]
        return kept


def keep_samples(content: Content, folder: Path, site: str) -> None:
    """Write what a person sees of a site's samples into the folder of a run."""
    every = range(len(content))
    frame = pd.DataFrame([_plain(content, n) for n in every], index=every)
    if len(content) and content.picture(0) is not None:
        frame = frame.drop(columns=list(frame))  # a picture's numbers are seen in the picture
        frame[PICTURE] = [content.picture(n) for n in every]
    table = pa.Table.from_pandas(frame, preserve_index=False)
    write_atomically(folder / "clients" / site / FILE, partial(pq.write_table, table))


def kept_samples(folder: Path, site: str) -> ShownSamples | None:
    """Return a site's samples, if the folder of the run has them."""
    path = folder / "clients" / site / FILE
    if not path.exists():
        return None
    try:
        return ShownSamples(pd.read_parquet(path))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}); save the result again") from None


def _plain(content: Content, index: int) -> dict[str, Any]:
    fields = content.fields(index)
    simple = (bool, int, float, str, type(None))
    return {name: v if isinstance(v, simple) else str(v) for name, v in fields.items()}
