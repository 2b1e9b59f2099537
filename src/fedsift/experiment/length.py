"""How many rounds a full-length run has: until FedAvg has overfitted the wrong labels.

    K = the first of 150, 180, .. 300 rounds at which FedAvg's test accuracy is at least 3 points
        below its best so far; 300 if it never is

FedAvg's own run decides it, without a head start and with seed 0, once per dataset and split; all
other runs of that dataset and split have the same K. K chooses no model and no key, so that it may
look at test accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SHORTEST, STEP, LONGEST = 150, 30, 300
FALL, ROUNDING = 0.03, 1e-9


def next_length(rounds: int) -> int:
    """Return the first length of at least so many rounds."""
    steps = max(0, -((SHORTEST - rounds) // STEP))
    return min(LONGEST, SHORTEST + STEP * steps)


def settled_length(series: Mapping[str, Sequence[float]]) -> int | None:
    """Return K by FedAvg's test accuracy at the rounds that were evaluated; None: not long enough.

    Examples:
        >>> settled_length({"round": [80, 150], "test_accuracy": [0.952, 0.919]})
        150
        >>> settled_length({"round": [80, 150], "test_accuracy": [0.952, 0.939]}) is None
        True
    """
    best = 0.0
    for k, accuracy in zip(series["round"], series["test_accuracy"], strict=True):
        best = max(best, accuracy)
        at = k >= SHORTEST and (k - SHORTEST) % STEP == 0
        if k >= LONGEST or (at and best - accuracy >= FALL - ROUNDING):
            return int(k)
    return None
