"""What is measured of a run: the model on the test set, the weights against the truth."""

from __future__ import annotations

from collections.abc import Mapping

from sklearn.metrics import precision_recall_fscore_support, roc_auc_score
from torch import Tensor

from fedsift.audit import THRESHOLD
from fedsift.problem import FlatModel
from fedsift.problem.inputs import Inputs
from fedsift.problem.predict import predict


def accuracy(model: FlatModel, y: Tensor, inputs: Inputs, labels: Tensor) -> float:
    """Return the share of inputs whose most probable class is the label."""
    hits = predict(model, y, inputs).argmax(dim=1).cpu() == labels.cpu()
    return float(hits.double().mean())


def detection(weights: Tensor, wrong: Tensor | None) -> dict[str, float | None]:
    """Compare "weight below 0.5" with the truth; mislabelled is the positive class."""
    none: Mapping[str, float | None] = dict.fromkeys(("f1", "precision", "recall", "auc"))
    if wrong is None:
        return dict(none)
    truth = wrong.cpu().numpy()
    flagged = (weights < THRESHOLD).cpu().numpy()
    precision, recall, f1, _ = precision_recall_fscore_support(
        truth, flagged, average="binary", zero_division=0.0
    )
    two_classes = 0 < int(truth.sum()) < len(truth)
    auc = float(roc_auc_score(truth, -weights.cpu().numpy())) if two_classes else None
    return {"f1": float(f1), "precision": float(precision), "recall": float(recall), "auc": auc}
