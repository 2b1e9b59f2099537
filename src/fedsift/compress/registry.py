"""The table of compressors: a new one is one file and one row here.

A row says how to build the compressor from its keys, how to rebuild it from its `spec()`, and
where its error memory lives: in the listing, and in the other forms of error feedback, which fall
back to the listing's where a row names none. The contract tests run over every row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fedsift.compress import count_sketch, identity, topk
from fedsift.compress.count_sketch import CountSketch, SketchKeys
from fedsift.compress.ef21 import EF21
from fedsift.compress.error_feedback import FORMS, ClientFeedback, Feedback, NoFeedback
from fedsift.compress.gradient_feedback import ClientGradient, SketchGradient
from fedsift.compress.identity import Identity
from fedsift.compress.payload import Compressor
from fedsift.compress.settings import FeedbackKeys, RateKeys
from fedsift.compress.sketch_feedback import SketchFeedback
from fedsift.compress.sketch_tracking import SketchTracking
from fedsift.compress.topk import TopK, TopKKeys
from fedsift.errors import InputError
from fedsift.keys import BuildContext, Keys, Settings, key


@dataclass(frozen=True)
class Row:
    """One compressor: its class, how it is built and from which keys, its feedbacks."""

    kind: Callable[..., Compressor]
    build: Callable[[Settings, BuildContext], Compressor]
    feedback: Callable[[Any], Feedback]
    groups: tuple[type[Keys], ...] = (RateKeys,)
    forms: Mapping[str, Callable[[Any], Feedback]] = field(default_factory=dict)


COMPRESSORS: dict[str, Row] = {
    "identity": Row(Identity, identity.build, NoFeedback, groups=()),
    "topk": Row(
        TopK,
        topk.build,
        ClientFeedback,
        (RateKeys, TopKKeys),
        forms={"gradient": ClientGradient, "ef21": EF21},
    ),
    "count-sketch": Row(
        CountSketch,
        count_sketch.build,
        SketchFeedback,
        (RateKeys, SketchKeys),
        forms={"gradient": SketchGradient, "ef21": SketchTracking},
    ),
}


@dataclass(frozen=True)
class CompressorKeys(Keys):
    """What compresses the clients' products."""

    table: ClassVar[str] = "solver"
    compressor: str = key(
        "auto",
        "compressor of the clients' products; auto: for single-loop topk if all clients take part, "
        "else count-sketch; for cg and neumann none",
        choices=lambda: ("auto", *COMPRESSORS),
    )


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


def feedback_for(compressor: Compressor, form: str = "listing") -> Feedback:
    """Return the error feedback that goes with a compressor, in one of the forms."""
    if form not in FORMS:
        raise InputError(f"there is no feedback {form!r}; choose one of {', '.join(FORMS)}")
    row = _row(compressor.spec()["name"])
    return row.forms.get(form, row.feedback)(compressor)


def chosen_feedback(
    name: str, settings: Settings, context: BuildContext, iterations: int = 1
) -> Feedback:
    """Return the feedback that the keys describe, with the compressor of this name.

    "auto" is by residual and F1 on digits (results/solver_forms.json): a sketch tracks Hv (EF21);
    Top-k has EF21 where a round has several iterations at the same clients. With one they tie, and
    it has the listing, which needs no whole product of clients that come later.
    """
    form = settings[FeedbackKeys].feedback
    if form == "auto":
        settles = iterations > 1 and not context.cohort
        form = "ef21" if name == "count-sketch" or settles else "listing"
    return feedback_for(make_compressor(name, settings, context), form)


def _row(name: object) -> Row:
    row = COMPRESSORS.get(name) if isinstance(name, str) else None
    if row is None:
        raise InputError(f"there is no compressor {name!r}; choose one of {', '.join(COMPRESSORS)}")
    return row
