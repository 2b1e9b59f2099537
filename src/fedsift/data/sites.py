"""The sites of a simulated federation, from a list, a mapping, or one table with a column of sites.

| function     | given                                                        | sites              |
|--------------|--------------------------------------------------------------|--------------------|
| `by_site`    | a list of samples, or a mapping {name: samples}              | as given           |
| `by_group`   | all samples, and the name of a site for each                 | by first appearance|

``ids`` and true labels come per site in the first case, per row in the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fedsift.data.federated import check_site_names, site_in_messages
from fedsift.data.given import Given
from fedsift.data.labels import Labels, read_labels
from fedsift.errors import DataError

Read = Callable[[Any, str], Given]


@dataclass(frozen=True, eq=False)
class GivenSite:
    """A site as it was given; ``where`` names it in messages, ``truth`` may be unknown."""

    name: str
    where: str
    given: Given
    truth: Labels | None = None


def by_site(clients: Any, ids: Any, true_labels: Any, read: Read) -> list[GivenSite]:
    """Read the samples of every site."""
    names, values = _named(clients)
    check_site_names(names, len(values))
    sites = []
    for m, (name, value) in enumerate(zip(names, values, strict=True)):
        where = site_in_messages(m, name)
        sites.append(GivenSite(name, where, read(value, where)))
    if true_labels is not None:
        truths = _per_site(true_labels, names, "true_labels", "arrays")
        sites = [
            replace(s, truth=read_labels(t, f"true_labels[{_key(s.name)}]"))
            for s, t in zip(sites, truths, strict=True)
        ]
    if ids is not None:
        lists = [listed(part, "ids") for part in _per_site(ids, names, "ids", "lists")]
        if [len(part or ()) for part in lists] != [len(s.given.labels) for s in sites]:
            raise DataError("ids must have one list per client, with one id per sample")
        sites = [
            replace(s, given=replace(s.given, ids=part))
            for s, part in zip(sites, lists, strict=True)
        ]
    return sites


def by_group(samples: Any, groups: Any, ids: Any, true_labels: Any, read: Read) -> list[GivenSite]:
    """Cut one table into sites; ids are the numbers of its rows where it has no others."""
    table = read(samples, "the table")
    n = len(table.labels)
    if n != len(table.inputs):
        raise DataError(f"the table has {len(table.inputs)} rows but {n} labels; give one per row")
    own = listed(ids, "ids")
    truth = None if true_labels is None else read_labels(true_labels, "true_labels")
    places = _places(groups, n)
    for what, values in (("ids", own), ("true_labels", truth)):
        if values is not None and len(values) != n:
            raise DataError(f"{what} has {len(values)} entries for {n} rows; give one per row")
    table = replace(table, ids=own or table.ids or tuple(range(n)))
    sites = []
    for m, (name, rows) in enumerate(places.items()):
        known = None if truth is None else replace(table, labels=truth).part(rows).labels
        sites.append(GivenSite(name, site_in_messages(m, name), table.part(rows), known))
    return sites


def listed(values: Any, what: str) -> tuple[Any, ...] | None:
    """Return entries as a tuple; None where there are none."""
    if values is None:
        return None
    if isinstance(values, str | bytes | Mapping | pd.DataFrame) or not isinstance(values, Iterable):
        raise DataError(f"{what} is of type {type(values).__name__}; give a list")
    found = values.tolist() if isinstance(values, Tensor | np.ndarray | pd.Series) else values
    if not isinstance(found, Iterable):  # an array without dimensions
        raise DataError(f"{what} has a single value; give a list")
    return tuple(found)


def _named(clients: Any) -> tuple[tuple[str, ...], list[Any]]:
    if isinstance(clients, Mapping):
        names, values = tuple(map(str, clients)), list(clients.values())
    elif isinstance(clients, list | tuple):
        names, values = tuple(map(str, range(len(clients)))), list(clients)
    else:
        raise DataError(
            f"clients is a {type(clients).__name__}; give a list of pairs (inputs, labels), a "
            "mapping of names to them, or groups with the site of every row"
        )
    if not values:
        raise DataError("there is no client; give at least one pair (inputs, labels)")
    return names, values


def _places(groups: Any, count: int) -> dict[str, Tensor]:
    """Return the rows of every site."""
    column = listed(groups, "groups") or ()
    if len(column) != count:
        raise DataError(f"groups has {len(column)} entries for {count} rows; give one per row")
    rows: dict[str, list[int]] = {}
    for row, value in enumerate(column):
        if value is None or value is pd.NA or value != value:  # noqa: PLR0124 - NaN is not itself
            raise DataError(f"groups has no site in row {row}; name it or leave the row out")
        rows.setdefault(str(value), []).append(row)
    if not rows:
        raise DataError("the table has no rows; give it some")
    check_site_names(tuple(rows), len(rows))
    return {name: torch.tensor(at) for name, at in rows.items()}


def _per_site(values: Any, names: Sequence[str], what: str, kind: str) -> list[Any]:
    """Return one value per site, from a list or by name."""
    if isinstance(values, Mapping):
        known = {str(key): value for key, value in values.items()}
        if known.keys() != {*names}:
            raise DataError(f"{what} has other sites than clients; give the same names")
        return [known[name] for name in names]
    found = listed(values, what) or ()
    if len(found) != len(names):
        raise DataError(
            f"{what} has {len(found)} {kind} for {len(names)} clients; give one per client"
        )
    return list(found)


def _key(name: str) -> str:
    return name if name.isdecimal() else repr(name)
