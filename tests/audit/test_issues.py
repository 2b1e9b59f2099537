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


def issues(record: SiteRecord, names: tuple[str, ...], given=Calibration()) -> pd.DataFrame:  # noqa: B008
    return issue_table(record, label_posterior(record, given), names)


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


def test_scores_are_shown_within_what_is_known_but_ordered_by_what_was_computed():
    probabilities = torch.tensor([[1e-9, 1 - 1e-9], [1e-12, 1 - 1e-12], [1 - 1e-12, 1e-12]])
    record = SiteRecord(
        "0", torch.zeros(3).long(), torch.tensor([0.1, 0.9, 0.5]), probabilities.double()
    )
    table = issues(record, ("a", "b"), Calibration(samples=18))
    assert table["index"].tolist() == [1, 0, 2]
    assert table["label_score"].tolist() == pytest.approx([0.05, 0.05, 0.95])
    assert table["confidence"].tolist() == pytest.approx([0.95, 0.95, 0.95])


def test_a_label_that_cannot_be_judged_comes_after_all_issues():
    """Even at a site where most labels are wrong, and the site's share of right ones is low."""
    probabilities = torch.tensor([[0.01, 0.99]] * 3 + [[0.99, 0.01]])
    record = SiteRecord("0", torch.tensor([0, 0, 0, 1]), torch.zeros(4), probabilities)
    table = issues(record, ("0", "1"), Calibration(judged=(True, False)))
    assert table["is_label_issue"].tolist() == [True, True, True, False]
    assert table["label_score"].tolist()[3] == 0.5
    assert table["predicted_label"].tolist() == [1, 1, 1, 1]  # such a class may be the truth
