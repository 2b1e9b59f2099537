"""The audit of one site: its table, its summary, and the samples that they are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from torch import Tensor

from fedsift.audit.calibration import Calibration
from fedsift.audit.issues import issue_table, label_posterior
from fedsift.audit.summary import SiteSummary, summarise
from fedsift.data.images import data_uri, is_image
from fedsift.problem.inputs import Inputs, sample

GALLERY = 24


@dataclass(frozen=True, eq=False)
class SiteAudit:
    """What is known of a site's labels; only the site itself may see it."""

    client: int
    inputs: Inputs
    labels: Tensor
    class_names: tuple[str, ...]
    table: pd.DataFrame
    summary: SiteSummary

    def gallery(self, count: int = GALLERY) -> list[dict[str, Any]]:
        """Return the worst labels as pictures; nothing where samples are not images."""
        if not is_image(self.inputs):
            return []
        worst = self.table[self.table["is_label_issue"]].head(count)
        columns = ("index", "label", "suggested_label", "score", "confidence")
        rows = zip(*(worst[name].tolist() for name in columns), strict=True)
        return [
            {**dict(zip(columns, row, strict=True)), "image": data_uri(sample(self.inputs, row[0]))}
            for row in rows
        ]


def audit_site(
    client: int,
    inputs: Inputs,
    labels: Tensor,
    weights: Tensor,
    probabilities: Tensor,
    calibration: Calibration,
    class_names: Sequence[str],
    ids: Sequence[Any] | None = None,
) -> SiteAudit:
    """Audit a site, given the trained model's probabilities for its samples."""
    posterior = label_posterior(labels, probabilities, calibration)
    table = issue_table(labels, weights, posterior, class_names, ids)
    summary = summarise(labels, weights, posterior, class_names)
    return SiteAudit(client, inputs, labels, tuple(class_names), table, summary)
