"""How much of updates and models travels: the keys' numbers, or what suits the run.

"auto" sends a twelfth of the numbers of every update up and of every model's change down, where
accuracy and F1 were measured not to suffer (``benchmarks/bytes.py``), and all of them elsewhere:

| where everything travels               | why                                                    |
|----------------------------------------|--------------------------------------------------------|
| methods that ``auto`` never chooses    | not measured, or a baseline, which is as in the books   |
| a cohort is drawn                      | what a client owes would wait until it is drawn again   |
| ``secure_sum``                         | clients keep other places, which do not sum under masks |
| ``aggregation`` is not ``mean``        | the median of sparse vectors is zero                    |
| ``dp_clip``                            | Top-k would send what has the most noise                |
"""

from __future__ import annotations

from fedsift.algorithms.registry import METHODS
from fedsift.experiment.config import Config
from fedsift.federation import Rates
from fedsift.keys import AUTO, Auto

RATE = 12.0


def rates_of(config: Config) -> Rates:
    """Return how much of updates and models is left out of what travels."""
    hidden = config.secure_sum or config.dp_clip
    mean_of_all = config.aggregation == "mean" and not config.cohort and not hidden
    found = RATE if METHODS[config.method].sends_differences and mean_of_all else 1.0

    def rate(given: Auto) -> float:
        return found if given == AUTO else given

    return Rates(rate(config.update_rate), rate(config.model_rate))
