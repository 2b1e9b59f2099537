"""What a person should know of a run when it ends, by the figures of its last round.

| figures of the record                     | said when                                            |
|-------------------------------------------|------------------------------------------------------|
| `validation_accuracy`, `judged_accuracy`  | f − j > max(0.05, 2 √((f (1 − f) + j (1 − j)) / n))  |
| `training_helped`                         | it is 0: the model is that of the clean set          |
| `validation_accuracy` after single-loop   | f < 0.9: posterior is ahead on such tasks            |

f is the model's accuracy on the n clean samples, which it was trained on; j is that of models that
had not seen the sample. Any method that reports these figures gets the sentences, once a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

from fedsift.algorithms.auto import ENOUGH

LEAST = 0.05  # a difference that matters, however many samples there are
ERRORS = 2.0
HARD = 0.9  # FEMNIST and CIFAR-10 are below it, where posterior is ahead; MNIST is above


def notices(
    record: Mapping[str, Any], samples: int, method: str = "", classes: int = 0
) -> list[str]:
    """Return the sentences about a run whose last record this is."""
    found = []
    fitted, judged = record.get("validation_accuracy"), record.get("judged_accuracy")
    if fitted is not None and judged is not None and parted(fitted, judged, samples):
        found.append(
            f"the model is right on {fitted:.0%} of the clean samples, which it was trained on, "
            f"but on {judged:.0%} of them when they are held out; expect the latter"
        )
    if record.get("training_helped") == 0.0:
        found.append(
            "training on the sites' labels did not lower the loss on held-out clean samples; the "
            "model is that of the clean set alone"
        )
    enough = samples >= ENOUGH * classes  # else posterior learns nothing
    if method == "single-loop" and enough and fitted is not None and fitted < HARD:
        found.append(
            f"the model is right on {fitted:.0%} of the clean samples; on tasks as hard as this "
            "--method posterior finds more wrong labels"
        )
    return found


def parted(fitted: float, judged: float, samples: int) -> bool:
    """Return whether two accuracies on n samples differ by more than chance explains."""
    error = sqrt((fitted * (1 - fitted) + judged * (1 - judged)) / max(samples, 1))
    return fitted - judged > max(LEAST, ERRORS * error)
