"""Label issues: one row per sample, worst first."""

import pandas as pd
import pytest
import torch

from fedsift.audit import Calibration, SiteRecord
from fedsift.audit.issues import COLUMNS, issue_table, label_posterior
from fedsift.errors import DataError

LABELS = torch.tensor([2, 0, 1])
WEIGHTS = torch.tensor([0.75, 0.5, 0.25])
PROBABILITIES = torch.tensor([[0.02, 0.03, 0.95], [0.5, 0.3, 0.2], [0.6, 0.3, 0.1]])


def issues(record: SiteRecord, names: tuple[str, ...]) -> pd.DataFrame:
    return issue_table(record, label_posterior(record, Calibration()), names)


def test_table_by_hand():
    record = SiteRecord("north", LABELS, WEIGHTS, PROBABILITIES, ("x", "y", "z"))
    table = issues(record, ("a", "b", "c"))
    scores = label_posterior(record, Calibration()).right
    assert scores[2] < 0.5  # the model prefers another class by far
    others = 1 - scores
    expected = pd.DataFrame(
        {
            "site": "north",
            "index": [2, 1, 0],
            "id": ["z", "y", "x"],
            "given_label": ["b", "a", "c"],
            "predicted_label": ["a", table["predicted_label"][1], "c"],
            "label_score": scores[[2, 1, 0]],
            "is_label_issue": (scores < 0.5)[[2, 1, 0]],
            "confidence": [others[2] * 0.6 / 0.7, table["confidence"][1], scores[0]],
            "weight": [0.25, 0.5, 0.75],
        }
    )
    pd.testing.assert_frame_equal(table, expected, check_dtype=False)
    assert tuple(table.columns) == COLUMNS


def test_classes_named_by_numbers_are_numbers_and_samples_have_their_positions():
    table = issues(SiteRecord("0", LABELS, WEIGHTS, PROBABILITIES), ("0", "1", "2"))
    assert table["given_label"].tolist() == [1, 0, 2]
    assert table["id"].tolist() == ["2", "1", "0"]


def test_equal_scores_are_ordered_by_weight_then_position():
    weights = torch.tensor([0.5, 0.1, 0.5, 0.2])
    record = SiteRecord("0", torch.zeros(4).long(), weights, torch.full((4, 2), 0.5))
    assert issues(record, ("a", "b"))["index"].tolist() == [1, 3, 0, 2]


def test_ids_must_fit():
    with pytest.raises(DataError, match="2 ids for 3 samples"):
        SiteRecord("0", LABELS, WEIGHTS, PROBABILITIES, ("x", "y"))
