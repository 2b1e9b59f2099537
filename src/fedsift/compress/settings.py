"""The key that all compressors of a chosen size share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedsift.keys import Keys, key


@dataclass(frozen=True)
class RateKeys(Keys):
    """How much is compressed."""

    table: ClassVar[str] = "solver"
    rate: float = key(20.0, "compression rate: d / numbers sent", low=1)
