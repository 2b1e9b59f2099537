"""The table of compressors: a new one is one file and one row here.

A row says how to build the compressor from a rate, how to rebuild it from its `spec()`, and where
its error memory lives. The contract tests run over every row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from fedsift.compress.count_sketch import CountSketch
from fedsift.compress.error_feedback import ClientFeedback, Feedback, NoFeedback
from fedsift.compress.identity import Identity
from fedsift.compress.payload import Compressor
from fedsift.compress.sketch_feedback import SketchFeedback
from fedsift.compress.topk import TopK
from fedsift.errors import InputError

CompressorName: TypeAlias = Literal["identity", "topk", "count-sketch"]


@dataclass(frozen=True)
class Row:
    """One compressor: its class, its constructor from (length, rate, rows, seed), its feedback."""

    kind: Callable[..., Compressor]
    at_rate: Callable[[int, float, int, int], Compressor]
    feedback: Callable[[Any], Feedback]


COMPRESSORS: Mapping[str, Row] = {
    "identity": Row(Identity, lambda length, *_: Identity(length), NoFeedback),
    "topk": Row(TopK, lambda length, rate, *_: TopK.at_rate(length, rate), ClientFeedback),
    "count-sketch": Row(CountSketch, CountSketch.at_rate, SketchFeedback),
}


def make_compressor(
    name: CompressorName, length: int, rate: float, rows: int = 5, seed: int = 0
) -> Compressor:
    """Build a compressor by name at a compression rate d / numbers.

    `identity` ignores the rate; `rows` and `seed` are for the count sketch.
    """
    return _row(name).at_rate(length, rate, rows, seed)


def from_spec(spec: Mapping[str, int | str]) -> Compressor:
    """Build the compressor that returned this `spec()`."""
    sizes = {key: value for key, value in spec.items() if key != "name"}
    wrong = [key for key, value in sizes.items() if type(value) is not int]
    if wrong:
        raise InputError(f"a compressor's spec has {wrong[0]!r} that is not an integer")
    try:
        return _row(spec.get("name")).kind(**sizes)
    except TypeError as error:
        raise InputError(f"a compressor's spec has the wrong keys {sorted(spec)}") from error


def feedback_for(compressor: Compressor) -> Feedback:
    """Return the error feedback that goes with a compressor."""
    return _row(compressor.spec()["name"]).feedback(compressor)


def _row(name: object) -> Row:
    row = COMPRESSORS.get(name) if isinstance(name, str) else None
    if row is None:
        raise InputError(f"there is no compressor {name!r}, choose one of {', '.join(COMPRESSORS)}")
    return row
