"""From a trained model and weights to label issues: one row per sample of one client, worst first.

| column           | meaning                                                                      |
|------------------|------------------------------------------------------------------------------|
| index            | position of the sample at its client                                         |
| id               | its file name or id, where the data has one                                  |
| label            | the given label                                                              |
| weight           | learned weight in [0, 1]; low is bad                                         |
| score            | probability that the label is right: 0 surely wrong, 1 surely right, within  |
|                  | what the clean samples can tell                                              |
| is_label_issue   | score below 0.5: more probably wrong than right                              |
| suggested_label  | of an issue the most probable other class, else the label itself             |
| confidence       | the probability of the suggestion                                            |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from fedsift.audit.calibration import Calibration, Posterior, posterior
from fedsift.errors import DataError

COLUMNS = ("index", "label", "weight", "score", "is_label_issue", "suggested_label", "confidence")


def label_issues(
    labels: Tensor,
    weights: Tensor,
    probabilities: Tensor,
    calibration: Calibration | None = None,
    *,
    class_names: Sequence[str] | None = None,
    ids: Sequence[Any] | None = None,
) -> pd.DataFrame:
    """Return every sample of a client, the most suspicious first."""
    return issue_table(
        labels,
        weights,
        label_posterior(labels, probabilities, calibration or Calibration()),
        class_names,
        ids,
    )


def label_posterior(labels: Tensor, probabilities: Tensor, calibration: Calibration) -> Posterior:
    """Return the posterior of a client's labels, given the model's probabilities."""
    return posterior(probabilities.double().numpy(), labels.numpy(), calibration)


def issue_table(
    labels: Tensor,
    weights: Tensor,
    belief: Posterior,
    class_names: Sequence[str] | None = None,
    ids: Sequence[Any] | None = None,
) -> pd.DataFrame:
    """Return the table; labels are class names where these are given, else numbers."""
    if ids is not None and len(ids) != len(labels):
        raise DataError(
            f"there are {len(ids)} ids for {len(labels)} samples; give one id per sample"
        )
    given, known = labels.numpy(), belief.calibration.known
    flagged, every = belief.flagged, np.arange(len(given))
    others = belief.classes.copy()
    others[every, given] = -1.0
    suggested = np.where(flagged, others.argmax(axis=1), given)
    named = {"label": given, "suggested_label": suggested}
    if class_names is not None:
        named = {key: np.array(class_names, dtype=object)[v] for key, v in named.items()}
    table = pd.DataFrame(
        {
            "index": every,
            **({} if ids is None else {"id": list(ids)}),
            "label": named["label"],
            "weight": weights.numpy(),
            "score": known(belief.order),
            "is_label_issue": flagged,
            "suggested_label": named["suggested_label"],
            "confidence": known(belief.classes[every, suggested]),
        }
    )
    # By what was computed, not by what is shown: many scores are shown as the lowest that can be.
    return table.iloc[np.lexsort((every, weights.numpy(), belief.order))].reset_index(drop=True)
