"""What a person sees of samples that were given in memory, kept beside their audit.

    clients/<site>/samples.parquet   a column per field; `picture`, a PNG, where there is one

Samples that came from files are not kept: they are read again from where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from fedsift.audit.record import SiteRecord
from fedsift.audit.site import SiteAudit
from fedsift.data.images import pixels_of, png
from fedsift.data.samples import Content, Pixels
from fedsift.errors import InputError
from fedsift.files import write_atomically

FILE, PICTURE, INDEX = "samples.parquet", "picture", "fedsift index"
MOST = 20_000  # samples of a site that are kept, the most suspicious ones
NOT_KEPT = {"sample": f"not kept: a run folder has the {MOST} most suspicious samples of a site"}


@dataclass(frozen=True, eq=False)
class ShownSamples:
    """A content that was kept; ``rows`` has where each sample is in the file."""

    kind: ClassVar[str] = "shown"
    frame: pd.DataFrame
    rows: dict[int, int]
    count: int

    def __len__(self) -> int:
        return self.count

    def fields(self, index: int) -> dict[str, Any]:
        """Return the fields by name; what is missing is None."""
        if index not in self.rows:
            return dict(NOT_KEPT)
        row = self.frame.iloc[self.rows[index]].to_dict()
        row.pop(PICTURE, None)
        return {str(name): None if pd.isna(v) else v for name, v in row.items()}

    def picture(self, index: int) -> bytes | None:
        """Return the picture; a black one for a sample that was not kept."""
        if PICTURE not in self.frame:
            return None
        if index not in self.rows:
            return png(torch.zeros(1, 8, 8))
        kept: bytes | None = self.frame[PICTURE].iloc[self.rows[index]]
        return kept

    def own_pixels(self, index: int) -> Pixels | None:
        """Return how the picture looks; its values were not kept."""
        picture = self.picture(index)
        return None if picture is None else pixels_of(picture)

    def choose(self, rows: Sequence[int]) -> ShownSamples:
        """Return some of the samples."""
        kept = {new: self.rows[old] for new, old in enumerate(rows) if old in self.rows}
        return ShownSamples(self.frame, kept, len(rows))


def keep_samples(audit: SiteAudit, folder: Path) -> None:
    """Write what a person sees of a site's samples into the folder of a run."""
    content = audit.content
    indices = audit.table["index"].head(MOST).tolist()
    if len(content) and content.picture(0) is not None:  # its numbers are seen in the picture
        frame = pd.DataFrame({PICTURE: [content.picture(n) for n in indices]})
    else:
        frame = pd.DataFrame([_plain(content, n) for n in indices])
    table = pa.Table.from_pandas(frame.assign(**{INDEX: indices}), preserve_index=False)
    write_atomically(folder / "clients" / audit.site / FILE, partial(pq.write_table, table))


def kept_samples(folder: Path, record: SiteRecord) -> ShownSamples | None:
    """Return a site's samples, if the folder of the run has them."""
    path = folder / "clients" / record.site / FILE
    if not path.exists():
        return None
    try:
        frame = pd.read_parquet(path)
        rows = {int(index): row for row, index in enumerate(frame.pop(INDEX))}
        return ShownSamples(frame, rows, len(record))
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} cannot be read ({error}); save the result again") from None


def _plain(content: Content, index: int) -> dict[str, Any]:
    fields = content.fields(index)
    simple = (bool, int, float, str, type(None))
    return {name: v if isinstance(v, simple) else str(v) for name, v in fields.items()}
