"""From weights to label issues: one row per sample of one client, worst first.

| column           | meaning                                                     |
|------------------|-------------------------------------------------------------|
| index            | position of the sample at its client                        |
| label            | the given label                                             |
| weight           | learned weight in [0, 1]; low is bad                        |
| is_label_issue   | weight below 0.5, the paper's rule                          |
| suggested_label  | the trained model's most probable class                     |
| confidence       | its probability                                             |
"""

from __future__ import annotations

import pandas as pd
from torch import Tensor

THRESHOLD = 0.5


def label_issues(labels: Tensor, weights: Tensor, probabilities: Tensor) -> pd.DataFrame:
    """Return every sample of a client, the most suspicious first."""
    confidence, suggested = probabilities.max(dim=1)
    table = pd.DataFrame(
        {
            "index": range(len(labels)),
            "label": labels.numpy(),
            "weight": weights.numpy(),
            "is_label_issue": (weights < THRESHOLD).numpy(),
            "suggested_label": suggested.numpy(),
            "confidence": confidence.numpy(),
        }
    )
    return table.sort_values(["weight", "index"], ignore_index=True)
