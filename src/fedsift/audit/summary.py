"""A site's labels in a few numbers, and what of them may leave the site.

Only the site itself sees ``SiteSummary``. ``shared`` is all that the server may get, and only
where the site allows it (``share_summary``): how many samples there are and how many are flagged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Tensor

from fedsift.audit.calibration import Belief

PAIRS = 10


@dataclass(frozen=True)
class Share:
    """An estimated share of wrong labels with its 95 % interval."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.1%} ({self.low:.1%} to {self.high:.1%})".replace("%", " %")


@dataclass(frozen=True)
class ClassSummary:
    """The samples that carry one label; ``judged``: the clean set can tell which are wrong."""

    label: str
    samples: int
    flagged: int
    wrong: Share
    judged: bool = True


@dataclass(frozen=True)
class Pair:
    """How many samples labelled ``label`` are expected to be ``truth``."""

    label: str
    truth: str
    expected: float


@dataclass(frozen=True)
class SiteSummary:
    """A summary of a site's audit; ``basis`` says what the judgement rests on, if that varies."""

    samples: int
    flagged: int
    wrong: Share
    classes: tuple[ClassSummary, ...]
    confused: tuple[Pair, ...]
    effective_samples: float
    basis: str = ""

    @property
    def unjudged(self) -> tuple[str, ...]:
        """The classes whose labels cannot be judged."""
        return tuple(row.label for row in self.classes if not row.judged)

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return asdict(self)

    def shared(self) -> dict[str, int]:
        """Return the counts that may leave the site."""
        return {"samples": self.samples, "flagged": self.flagged}


def summarise(
    labels: Tensor, weights: Tensor, belief: Belief, class_names: Sequence[str]
) -> SiteSummary:
    """Sum up the posterior of a site's labels."""
    given, flagged = labels.numpy(), belief.flagged
    classes = []
    for number, name in enumerate(class_names):
        members = given == number
        if members.any():
            share = Share(*belief.wrong_share(members))
            counts = int(members.sum()), int((members & flagged).sum())
            judged = bool(belief.judged[members].all())
            classes.append(ClassSummary(name, *counts, share, judged))
    return SiteSummary(
        samples=len(given),
        flagged=int(flagged.sum()),
        wrong=Share(*belief.wrong_share()),
        classes=tuple(classes),
        confused=_confused(given, belief, class_names),
        effective_samples=_effective(weights),
        basis=belief.basis,
    )


def _confused(given: Any, belief: Belief, names: Sequence[str]) -> tuple[Pair, ...]:
    """Return the pairs (label, true class) that are expected most often."""
    expected = np.zeros((len(names), len(names)))
    np.add.at(expected, given[belief.judged], belief.classes[belief.judged])
    np.fill_diagonal(expected, 0.0)
    order = np.argsort(-expected, axis=None, kind="stable")[:PAIRS]
    pairs = [(int(i) // len(names), int(i) % len(names)) for i in order]
    return tuple(
        Pair(names[a], names[b], float(expected[a, b])) for a, b in pairs if expected[a, b] >= 0.5
    )


def _effective(weights: Tensor) -> float:
    """Return (Σw)² / Σw²: how many equally weighted samples the weights amount to."""
    squares = float(weights.double().square().sum())
    return float(weights.double().sum()) ** 2 / squares if squares else 0.0
