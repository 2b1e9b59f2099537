"""Label issues: one row per sample, worst first."""

import pandas as pd
import pytest
import torch

from fedsift.audit import label_issues


def test_table_by_hand():
    labels = torch.tensor([2, 0, 1])
    weights = torch.tensor([0.75, 0.5, 0.25])
    probabilities = torch.tensor([[0.1, 0.2, 0.7], [0.25, 0.5, 0.25], [0.6, 0.3, 0.1]])
    expected = pd.DataFrame(
        {
            "index": [2, 1, 0],
            "label": [1, 0, 2],
            "weight": [0.25, 0.5, 0.75],
            "is_label_issue": [True, False, False],  # 0.5 is not below 0.5
            "suggested_label": [0, 1, 2],
            "confidence": [0.6, 0.5, 0.7],
        }
    )
    table = label_issues(labels, weights, probabilities)
    pd.testing.assert_frame_equal(table, expected, check_dtype=False)


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_equal_weights_keep_the_order_of_the_samples(weight):
    count = 50
    probabilities = torch.full((count, 2), 0.5)
    table = label_issues(torch.zeros(count).long(), torch.full((count,), weight), probabilities)
    assert table["index"].tolist() == list(range(count))
    assert table["is_label_issue"].eq(weight < 0.5).all()
