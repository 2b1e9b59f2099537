"""What samples were read as, in lines for a person."""

from __future__ import annotations

from collections import Counter

import pandas as pd

from fedsift.data.samples import Arrays, Pictures, Samples, Table
from fedsift.data.schema.columns import column_kind
from fedsift.data.sources.pixels import TYPES

SHOWN = 30
_KINDS = {"table": "a table", "image": "images", "array": "arrays"}

Line = tuple[str, str]


def describe(samples: Samples) -> list[Line]:
    """Return (title, text) lines: columns, size, classes with their counts, ids, notes."""
    kind = _KINDS.get(samples.content.kind, samples.content.kind)
    lines = [("read as", f"{kind}, {len(samples)} samples"), *_content(samples.content)]
    counts = Counter(samples.labels)
    order = samples.classes or tuple(sorted(counts, key=_numbers_first))
    listed = [f"{name}: {counts[name]}" for name in order[:SHOWN]]
    more = [f"and {len(order) - SHOWN} more"] if len(order) > SHOWN else []
    lines.append((f"{len(order)} classes", ", ".join(listed + more)))
    if samples.ids is None:
        lines.append(("ids", "none; samples are known by their row (--id-column)"))
    else:
        lines.append(("ids", f"{samples.ids[0]} ... {samples.ids[-1]}"))
    return [*lines, *(("note", note) for note in samples.notes)]


def _content(content: object) -> list[Line]:
    if isinstance(content, Table):
        return [("column", _column(content.frame[name])) for name in content.frame.columns]
    if isinstance(content, Pictures):
        pixel = next(
            t for t in TYPES.values() if (t.channels, t.dtype) == (content.channels, content.dtype)
        )
        return [("image", f"{content.height}x{content.width} (height x width), {pixel.name}")]
    if isinstance(content, Arrays):
        shape = "x".join(str(n) for n in content.inputs.shape[1:])
        return [("array", f"{shape}, {str(content.inputs.dtype).removeprefix('torch.')}")]
    return []


def _numbers_first(name: str) -> tuple[bool, int, str]:
    return not name.isdecimal(), int(name) if name.isdecimal() else 0, name


def _column(values: pd.Series) -> str:
    kind = {"boolean": "true/false"}.get(column_kind(values), column_kind(values))
    missing = int(values.isna().sum())
    distinct = f" of {values.nunique()} values" if kind == "category" else ""
    return f"{values.name}: {kind}{distinct}" + (f", {missing} missing" if missing else "")
