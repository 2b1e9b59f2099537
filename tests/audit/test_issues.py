"""Label issues: one row per sample, worst first."""

import pandas as pd
import pytest
import torch

from fedsift.audit import Calibration, label_issues
from fedsift.audit.issues import label_posterior
from fedsift.errors import DataError

LABELS = torch.tensor([2, 0, 1])
WEIGHTS = torch.tensor([0.75, 0.5, 0.25])
PROBABILITIES = torch.tensor([[0.02, 0.03, 0.95], [0.5, 0.3, 0.2], [0.6, 0.3, 0.1]])


def test_table_by_hand():
    names = ("a", "b", "c")
    table = label_issues(LABELS, WEIGHTS, PROBABILITIES, class_names=names, ids=["x", "y", "z"])
    scores = label_posterior(LABELS, PROBABILITIES, Calibration()).right
    assert scores[2] < 0.5  # the model prefers another class by far
    others = 1 - scores
    expected = pd.DataFrame(
        {
            "index": [2, 1, 0],
            "id": ["z", "y", "x"],
            "label": ["b", "a", "c"],
            "weight": [0.25, 0.5, 0.75],
            "score": scores[[2, 1, 0]],
            "is_label_issue": (scores < 0.5)[[2, 1, 0]],
            "suggested_label": ["a", table["suggested_label"][1], "c"],
            "confidence": [others[2] * 0.6 / 0.7, table["confidence"][1], scores[0]],
        }
    )
    pd.testing.assert_frame_equal(table, expected, check_dtype=False)


def test_labels_are_numbers_without_names():
    table = label_issues(LABELS, WEIGHTS, PROBABILITIES)
    assert table["label"].tolist() == [1, 0, 2]
    assert "id" not in table


def test_equal_scores_are_ordered_by_weight_then_position():
    probabilities = torch.full((4, 2), 0.5)
    weights = torch.tensor([0.5, 0.1, 0.5, 0.2])
    table = label_issues(torch.zeros(4).long(), weights, probabilities)
    assert table["index"].tolist() == [1, 3, 0, 2]


def test_ids_must_fit():
    with pytest.raises(DataError, match="2 ids for 3 samples"):
        label_issues(LABELS, WEIGHTS, PROBABILITIES, ids=["x", "y"])


def test_scores_are_shown_within_what_is_known_but_ordered_by_what_was_computed():
    probabilities = torch.tensor([[1e-9, 1 - 1e-9], [1e-12, 1 - 1e-12], [1 - 1e-12, 1e-12]])
    table = label_issues(
        torch.zeros(3).long(), torch.tensor([0.1, 0.9, 0.5]), probabilities, Calibration(samples=18)
    )
    assert table["index"].tolist() == [1, 0, 2]
    assert table["score"].tolist() == pytest.approx([0.05, 0.05, 0.95])
    assert table["confidence"].tolist() == pytest.approx([0.95, 0.95, 0.95])


def test_a_label_that_cannot_be_judged_comes_after_all_issues():
    """Even at a site where most labels are wrong, and the site's share of right ones is low."""
    labels, calibration = torch.tensor([0, 0, 0, 1]), Calibration(judged=(True, False))
    probabilities = torch.tensor([[0.01, 0.99]] * 3 + [[0.99, 0.01]])
    table = label_issues(labels, torch.zeros(4), probabilities, calibration)
    assert table["is_label_issue"].tolist() == [True, True, True, False]
    assert table["score"].tolist()[3] == 0.5
    assert table["suggested_label"].tolist() == [1, 1, 1, 1]  # such a class may be the truth
