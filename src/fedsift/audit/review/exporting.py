"""Corrected labels as files: a row of ``EXPORTS`` each.

| name      | file                                                                           |
|-----------|--------------------------------------------------------------------------------|
| `parquet` | `corrected.parquet`: a row per sample, with who decided and when               |
| `csv`     | `corrected.csv`: the same                                                      |
| `own`     | the site's own table with a column of corrected labels (``data.own_file``)     |
| `images`  | a list of the site's images with their corrected classes                       |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pandas as pd

from fedsift.audit.review.decisions import Decisions
from fedsift.audit.review.samples import ReviewSamples, corrected_labels
from fedsift.data.corrected import FILE
from fedsift.data.own_file import OwnFile, write_own
from fedsift.errors import InputError
from fedsift.files import write_atomically


@dataclass(frozen=True, eq=False)
class Reviewed:
    """A site that is being reviewed: its samples, the decisions, and where its own file is.

    ``earlier`` are corrections that the run was made with: what they left out stays left out.
    """

    samples: ReviewSamples
    decisions: Decisions
    folder: Path
    own: OwnFile | None = None
    earlier: pd.DataFrame = field(default_factory=pd.DataFrame)

    def table(self) -> pd.DataFrame:
        """Return every sample with the label it has now."""
        table = corrected_labels(self.samples, self.decisions)
        if self.earlier.empty:
            return table
        gone = self.earlier[~self.earlier["id"].astype(str).isin(table["id"])]
        return pd.concat([table, gone.reindex(columns=table.columns)], ignore_index=True)


@dataclass(frozen=True)
class Written:
    """What an export has written, and how it is used; the counts are of samples."""

    path: str
    use: str
    decided: int
    changed: int
    unusable: int


@dataclass(frozen=True)
class Export:
    """A form of corrected labels."""

    help: str
    fits: Callable[[OwnFile | None], bool]
    write: Callable[[Reviewed, pd.DataFrame, Path | None], tuple[Path, str]]


def _labels(form: str, site: Reviewed, table: pd.DataFrame, out: Path | None) -> tuple[Path, str]:
    path = out or (site.folder / FILE).with_suffix(f".{form}")
    if form == "csv":
        write_atomically(path, lambda place: table.to_csv(place, index=False))
    else:
        write_atomically(path, lambda place: table.to_parquet(place, index=False))
    return path, f"--labels {path}"


def _own(site: Reviewed, table: pd.DataFrame, out: Path | None) -> tuple[Path, str]:
    assert site.own is not None
    unusable = table["unusable"].astype(bool)
    labels = table["label"].where(~unusable, None)
    by_name = dict(zip(table["id"].astype(str), labels, strict=True))
    path = write_own(site.own, by_name, out or site.folder / site.own.name)
    return path, site.own.reading


EXPORTS = {
    "parquet": Export(
        "a table for `fedsift run --labels`, with who decided and when",
        lambda own: True,  # noqa: ARG005
        partial(_labels, "parquet"),
    ),
    "csv": Export(
        "the same table, for a spreadsheet",
        lambda own: True,  # noqa: ARG005
        partial(_labels, "csv"),
    ),
    "own": Export(
        "your own file with a column of corrected labels",
        lambda own: own is not None and own.is_table,
        _own,
    ),
    "images": Export(
        "a list of your images with their corrected classes",
        lambda own: own is not None and own.is_images,
        _own,
    ),
}


def export(site: Reviewed, form: str, out: Path | None = None) -> Written:
    """Write the corrected labels in one of the forms."""
    if form not in EXPORTS:
        raise InputError(f"there is no export {form!r}; choose one of {', '.join(EXPORTS)}")
    if not EXPORTS[form].fits(site.own):
        fitting = ", ".join(name for name, row in EXPORTS.items() if row.fits(site.own))
        raise InputError(f"the site's data cannot be exported as {form}; choose {fitting}")
    table = site.table()
    path, use = EXPORTS[form].write(site, table, out)
    changed = (table["label"] != table["given_label"]) & table["given_label"].notna()
    return Written(
        str(path),
        use,
        len(site.decisions.decided),
        int(changed.sum()),
        int(table["unusable"].astype(bool).sum()),
    )
