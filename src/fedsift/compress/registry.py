"""The table of compressors: a new one is one file and one row here.

A row says how to build the compressor from its keys, how to rebuild it from its `spec()`, and
where its error memory lives. The contract tests run over every row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedsift.compress import count_sketch, identity, topk
from fedsift.compress.count_sketch import CountSketch, SketchKeys
from fedsift.compress.error_feedback import ClientFeedback, Feedback, NoFeedback
from fedsift.compress.identity import Identity
from fedsift.compress.payload import Compressor
from fedsift.compress.settings import RateKeys
from fedsift.compress.sketch_feedback import SketchFeedback
from fedsift.compress.topk import TopK, TopKKeys
from fedsift.errors import InputError
from fedsift.keys import BuildContext, Keys, Settings


@dataclass(frozen=True)
class Row:
    """One compressor: its class, how it is built and from which keys, its feedback."""

    kind: Callable[..., Compressor]
    build: Callable[[Settings, BuildContext], Compressor]
    feedback: Callable[[Any], Feedback]
    groups: tuple[type[Keys], ...] = (RateKeys,)


COMPRESSORS: dict[str, Row] = {
    "identity": Row(Identity, identity.build, NoFeedback, groups=()),
    "topk": Row(TopK, topk.build, ClientFeedback, (RateKeys, TopKKeys)),
    "count-sketch": Row(CountSketch, count_sketch.build, SketchFeedback, (RateKeys, SketchKeys)),
}


def make_compressor(name: str, settings: Settings, context: BuildContext) -> Compressor:
    """Build a compressor by name; the settings have at least the groups of its row."""
    return _row(name).build(settings, context)


def compressor_groups() -> tuple[type[Keys], ...]:
    """Return the groups of all compressors, for a method that lets the user choose one."""
    return tuple(dict.fromkeys(group for row in COMPRESSORS.values() for group in row.groups))


def from_spec(spec: Mapping[str, int | str]) -> Compressor:
    """Build the compressor that returned this `spec()`."""
    sizes = {key: value for key, value in spec.items() if key != "name"}
    wrong = [key for key, value in sizes.items() if type(value) is not int]
    if wrong:
        raise InputError(
            f"{wrong[0]!r} of a compressor's spec is not an integer; send what `spec` returns"
        )
    try:
        return _row(spec.get("name")).kind(**sizes)
    except TypeError as error:
        raise InputError(
            f"a compressor's spec has the wrong keys {sorted(spec)}; send what `spec` returns"
        ) from error


def feedback_for(compressor: Compressor) -> Feedback:
    """Return the error feedback that goes with a compressor."""
    return _row(compressor.spec()["name"]).feedback(compressor)


def _row(name: object) -> Row:
    row = COMPRESSORS.get(name) if isinstance(name, str) else None
    if row is None:
        raise InputError(f"there is no compressor {name!r}; choose one of {', '.join(COMPRESSORS)}")
    return row
