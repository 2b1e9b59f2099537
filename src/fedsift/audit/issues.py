"""From a trained model and weights to label issues: one row per sample of one site, worst first.

| column           | meaning                                                                      |
|------------------|------------------------------------------------------------------------------|
| site             | the site's name                                                              |
| index            | position of the sample at its site                                           |
| id               | what its owner calls it: a file name, a number                               |
| given_label      | the label that it has                                                        |
| predicted_label  | of an issue the most probable other class, else the given label              |
| label_score      | probability that the label is right: 0 surely wrong, 1 surely right, within  |
|                  | what the clean samples can tell                                              |
| is_label_issue   | label_score below 0.5: more probably wrong than right                        |
| confidence       | the probability of the predicted label                                       |
| weight           | learned weight in [0, 1]; low is bad                                         |

``given_label``, ``predicted_label``, ``label_score`` and ``is_label_issue`` are the names that
cleanlab's Datalab uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedsift.audit.calibration import Belief
from fedsift.audit.noise_calibration import AnyCalibration, NoiseCalibration
from fedsift.audit.record import SiteRecord

COLUMNS = (
    *("site", "index", "id", "given_label", "predicted_label"),
    *("label_score", "is_label_issue", "confidence", "weight"),
)


def label_posterior(record: SiteRecord, calibration: AnyCalibration) -> Belief:
    """Return the posterior of a site's labels."""
    given = record.probabilities.double().numpy(), record.labels.numpy()
    if isinstance(calibration, NoiseCalibration) and record.clean is not None:
        return calibration.posterior(*given, record.clean.double().numpy())
    return calibration.posterior(*given)


def issue_table(record: SiteRecord, belief: Belief, class_names: Sequence[str]) -> pd.DataFrame:
    """Return the table; a class that is named by its own number appears as that number."""
    given, known = record.labels.numpy(), belief.calibration.known
    flagged, every = belief.flagged, np.arange(len(given))
    others = belief.classes.copy()
    others[every, given] = -1.0
    predicted = np.where(flagged, others.argmax(axis=1), given)
    shown = class_values(class_names)
    table = pd.DataFrame(
        {
            "site": record.site,
            "index": every,
            "id": record.names,
            "given_label": shown[given],
            "predicted_label": shown[predicted],
            "label_score": known(belief.order),
            "is_label_issue": flagged,
            "confidence": known(belief.classes[every, predicted]),
            "weight": record.weights.numpy(),
        }
    )
    # By what was computed, not by what is shown: many scores are shown as the lowest that can be.
    by = np.lexsort((every, record.weights.numpy(), belief.order))
    return table.iloc[by].reset_index(drop=True)


def class_values(class_names: Sequence[str]) -> npt.NDArray[Any]:
    """Return what stands for each class in a table."""
    numbers = [str(n) for n in range(len(class_names))]
    if list(class_names) == numbers:
        return np.arange(len(class_names))
    return np.array(class_names, dtype=object)
