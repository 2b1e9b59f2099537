"""Tables: rules per column, numbers first, then booleans, categories and text.

Applied from the fitted numbers with numpy, so that a site needs what the JSON says and no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np
import pandas as pd
import torch
from scipy import sparse
from torch import Tensor

from fedsift.data.samples import Samples, Table
from fedsift.data.schema import cells
from fedsift.data.schema.column_rules import MOST_OUTPUTS, Boolean, Category, Number, Text
from fedsift.data.schema.columns import column_kind
from fedsift.data.schema.decoding import decode
from fedsift.data.schema.preparation import SchemaSettings, Workspace, expect
from fedsift.data.schema.table_fit import fit_columns
from fedsift.errors import DataError, InputError
from fedsift.problem.inputs import Inputs, Shape

MOST_CATEGORIES = 100
MOST_UNREPEATED = 20  # a category in more rows than this, most of them their own, is a name
CHOICES = ("number", "boolean", "category", "text", "ignore")


@dataclass(frozen=True)
class TablePreparation:
    """One rule per column that is used; ``ignored`` are the clean set's other columns."""

    kind: ClassVar[str] = "table"
    numbers: tuple[Number, ...]
    booleans: tuple[Boolean, ...]
    categories: tuple[Category, ...]
    texts: tuple[Text, ...]
    ignored: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [*(rule.name for rule in self.rules), *self.ignored]
        if len(set(names)) < len(names):
            twice = Counter(names).most_common(1)[0][0]
            raise InputError(f"column {twice[:40]!r} is there twice; rename one of the two")
        if not 1 <= self.shape[0] <= MOST_OUTPUTS:
            raise InputError(
                f"a table must become 1 to {MOST_OUTPUTS} columns of numbers, not {self.shape[0]}; "
                "choose which columns are used"
            )

    @property
    def rules(self) -> tuple[Number | Boolean | Category | Text, ...]:
        """All rules, in the order of their outputs."""
        return (*self.numbers, *self.booleans, *self.categories, *self.texts)

    @property
    def shape(self) -> Shape:
        """Shape of one input."""
        return (sum(rule.width for rule in self.rules),)

    @property
    def inputs_kind(self) -> str:
        """Kind of inputs, for ``default_model``."""
        return "text" if self.texts else "table"

    @classmethod
    def fit(
        cls,
        clean: Samples,
        settings: SchemaSettings,
        workspace: Workspace,
    ) -> tuple[Self, tuple[str, ...]]:
        """Fit on the clean set."""
        frame = frame_of(clean)
        kinds, notes = chosen_kinds(frame, settings, clean.where)
        used = {name: kind for name, kind in kinds.items() if kind != "ignore"}
        if not used:
            raise DataError(
                f"{clean.where} has no column that can be used ({'; '.join(notes)}); give a table "
                "with numbers, categories or text"
            )
        ignored = tuple(name for name in kinds if name not in used)
        fitted = cls(*fit_columns(frame, used, clean), ignored)
        fitted.inputs(clean, workspace)  # a kind that was chosen may not fit the column
        return fitted, tuple(notes)

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Make it from what ``to_json`` returned."""
        return decode(cls, value, "preparation")

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)

    def inputs(self, samples: Samples, workspace: Workspace) -> Inputs:  # noqa: ARG002
        """Return a tensor; with text, inputs that are dense only where they are taken."""
        frame = frame_of(samples)
        check_columns(frame, [rule.name for rule in self.rules], samples.where)
        short: list[Number | Boolean | Category] = [*self.numbers, *self.booleans, *self.categories]
        rows = torch.empty(len(frame), sum(rule.width for rule in short))
        end = 0
        for rule in short:  # into place one by one: wide tables are held once
            start, end = end, end + rule.width
            rows[:, start:end] = torch.from_numpy(rule.apply(frame[rule.name], samples))
        if not self.texts:
            return rows
        words = sparse.hstack([rule.apply(frame[rule.name], samples) for rule in self.texts])
        return SparseRows(rows, sparse.csr_matrix(words, dtype=np.float32))

    def unseen(self, samples: Samples) -> list[str]:
        """Say which columns, categories and gaps the clean set did not have."""
        frame = frame_of(samples)
        known = {*(rule.name for rule in self.rules), *self.ignored}
        extra = [name for name in map(str, frame) if name not in known]
        notes = [rule.unseen(frame[rule.name]) for rule in self.rules if rule.name in frame]
        if extra:
            listed = ", ".join(repr(name[:40]) for name in extra[:5])
            more = f" and {len(extra) - 5} others" if len(extra) > 5 else ""
            notes.append(f"the clean set has no column {listed}{more}, so it is not used")
        return [f"{samples.where}: {note}" for note in notes if note]


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows whose last columns are hashed text: sparse, dense only where they are taken."""

    rows: Tensor
    words: sparse.csr_matrix

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> Shape:
        """Number of samples, then the shape of one input."""
        return (len(self.rows), self.rows.shape[1] + self.words.shape[1])

    @property
    def dtype(self) -> torch.dtype:
        """Type of the numbers."""
        return self.rows.dtype

    def take(self, indices: Tensor) -> Tensor:
        """Read these samples, in this order."""
        rows = indices.cpu()
        words = torch.from_numpy(self.words[rows.numpy()].toarray())
        return torch.cat([self.rows[rows], words], dim=1)


def frame_of(samples: Samples) -> pd.DataFrame:
    """Return the table with text as its columns' names."""
    expect(samples.content, "table", samples.where)
    frame = cast("Table", samples.content).frame
    names = [str(name) for name in frame.columns]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(f"{samples.where} has column {twice[0]!r} twice; rename one of the two")
    return frame.set_axis(names, axis=1)


def check_columns(frame: pd.DataFrame, names: Sequence[str], where: str) -> None:
    """Refuse a table that lacks a column."""
    for name in names:
        if name not in frame:
            raise DataError(
                f"{where} has no column {name!r}, which the clean set has; it has "
                f"{', '.join(map(repr, frame.columns[:20]))}"
            )


def chosen_kinds(
    frame: pd.DataFrame, settings: SchemaSettings, where: str
) -> tuple[dict[str, str], list[str]]:
    """Return the kind of every column, ``ignore`` where it is left out, and why."""
    for name, kind in settings.columns.items():
        if name not in frame:
            raise DataError(f"{where} has no column {name!r}; it has {', '.join(frame.columns)}")
        if kind not in CHOICES:
            raise InputError(f"column {name!r} cannot be {kind!r}; use {', '.join(CHOICES)}")
    kinds, notes = {}, []
    for name in map(str, frame.columns):
        given = settings.columns.get(name)
        found = column_kind(frame[name])
        kind = given if given and found != "empty" else found
        reason = None if kind == given else _useless(frame[name], kind)
        reason = reason or (_too_many(frame[name], given) if kind == "category" else None)
        kinds[name] = "ignore" if reason else kind
        if reason:
            notes.append(f"column {name!r} {reason}")
    return kinds, notes


def _useless(column: pd.Series[Any], kind: str) -> str | None:
    if kind == "empty":
        return "has no values and is left out"
    if kind == "date":
        return "has dates and is left out; make numbers of them, such as an age"
    if len(cells.texts(column).unique()) == 1:
        return f"has the value {str(column.iloc[0])[:40]!r} in every row and is left out"
    return None


def _too_many(column: pd.Series[Any], given: str | None) -> str | None:
    """Say why a column of strings is not a category: it has too many, or is a name."""
    count = cells.texts(column).nunique()
    name_like = count > MOST_UNREPEATED and 2 * count > len(column) and not given
    if count <= MOST_CATEGORIES and not name_like:
        return None
    return (
        f"has {count} different values in {len(column)} rows and is left out; name it as "
        "--id-column, or give its kind with --column-kind NAME=category"
    )
