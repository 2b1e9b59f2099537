"""Samples of a class whose labels are surely right, nearest first: what the class looks like.

How far two samples are apart is a matter of what a person sees of them, not of the model, which
may be wrong:

| samples  | distance                                                                         |
|----------|----------------------------------------------------------------------------------|
| pictures | between small grey versions of them, each with mean 0 and variance 1             |
| fields   | mean over fields: |a - b| / spread for numbers, shared words for text, else 0 or 1 |

Only the ``MOST`` surest samples of a class are looked at, and of large pictures fewer, so that the
page does not wait.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedsift.audit.review.pictures import shrunk
from fedsift.data.samples import Content

COUNT, MOST, SIDE = 5, 100, 16
DECODED = 1 << 23  # pixels that are decoded to find neighbours, unless COUNT pictures have more
SURE = 0.8  # score from which a label counts as surely right
WORD = re.compile(r"\w+")
Vector = npt.NDArray[np.float64]


class Neighbours:
    """The sure samples of one site."""

    def __init__(self, content: Content, table: pd.DataFrame, labels: Sequence[int]) -> None:
        """Take the audit's table, and the class number of each of its rows."""
        self._content, self._size = content, 1
        order = np.argsort(-table["label_score"].to_numpy(), kind="stable")
        sure = table["label_score"].to_numpy() >= SURE
        index = table["index"].to_numpy()
        self._sure: dict[int, list[int]] = {}
        for row in order:
            found = self._sure.setdefault(labels[row], [])
            if sure[row] and len(found) <= MOST:
                found.append(int(index[row]))
        self._vector = lru_cache(maxsize=8192)(self._make_vector)
        self._fields = lru_cache(maxsize=8192)(content.fields)

    def of(self, index: int, label: int) -> list[int]:
        """Return the nearest sure samples of a class."""
        candidates = [n for n in self._sure.get(label, ()) if n != index]
        if not candidates:
            return []
        here = self._vector(index)
        if here is not None:
            few = max(COUNT, min(MOST, DECODED // self._size))
            found = {n: self._vector(n) for n in candidates[:few]}
            far = {n: float(((v - here) ** 2).mean()) for n, v in found.items() if v is not None}
        else:
            own, rows = self._fields(index), {n: self._fields(n) for n in candidates}
            spread = _spread([own, *rows.values()])
            far = {n: distance(own, row, spread) for n, row in rows.items()}
        return sorted(far, key=lambda n: far[n])[:COUNT]

    def _make_vector(self, index: int) -> Vector | None:
        pixels = self._content.own_pixels(index)
        if pixels is None:
            return None
        self._size = max(1, pixels.shape[0] * pixels.shape[1])
        grey = np.asarray(pixels, np.float64).reshape(*pixels.shape[:2], -1).mean(axis=2)
        fine = shrunk(grey, 4 * SIDE)
        rows, columns = (np.linspace(0, n - 1, SIDE).round().astype(int) for n in fine.shape)
        low: Vector = fine[np.ix_(rows, columns)]  # one shape for pictures of any size
        return np.asarray((low - low.mean()) / (low.std() or 1.0))


def distance(
    one: Mapping[str, Any], other: Mapping[str, Any], spread: Mapping[str, float]
) -> float:
    """Return how far two rows of fields are apart, from 0 on."""
    parts = []
    for name, a in one.items():
        b = other.get(name)
        if a is None or b is None:
            parts.append(float(a is not b))
        elif _is_number(a) and _is_number(b):
            parts.append(abs(float(a) - float(b)) / spread.get(name, 1.0))
        elif isinstance(a, str) and isinstance(b, str):
            words, theirs = set(WORD.findall(a.lower())), set(WORD.findall(b.lower()))
            parts.append(1 - len(words & theirs) / max(len(words | theirs), 1))
        else:
            parts.append(float(a != b))
    return sum(parts) / max(len(parts), 1)


def _spread(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    numbers: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            if _is_number(value):
                numbers.setdefault(name, []).append(float(value))
    return {name: float(np.std(values)) or 1.0 for name, values in numbers.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)
