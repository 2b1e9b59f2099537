"""The keys that compressors share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedsift.compress.error_feedback import FORMS
from fedsift.keys import Keys, key


@dataclass(frozen=True)
class RateKeys(Keys):
    """How much is compressed."""

    table: ClassVar[str] = "solver"
    rate: float = key(20.0, "compression rate: d / numbers sent", low=1)


@dataclass(frozen=True)
class FeedbackKeys(Keys):
    """What becomes of the error of compression."""

    table: ClassVar[str] = "solver"
    feedback: str = key(
        "auto",
        "error feedback; listing: as Algorithm 2 is listed; gradient: Eq. 12; ef21: differences to "
        "what was sent, which converges; auto: ef21 for sketches and for several iterations a "
        "round, else listing",
        choices=lambda: ("auto", *FORMS),
    )
