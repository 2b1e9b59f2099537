"""The keep rule and the histogram on losses that can be counted by hand."""

from __future__ import annotations

import pytest
import torch

from fedsift.problem.sample_losses import histogram, keep_below

LOSSES = torch.tensor([0.5, 0.25, 1.0, 0.5000001])


@pytest.mark.parametrize(
    ("threshold", "kept", "found"),
    [
        (0.5, [1, 1, 0, 0], True),  # a loss exactly at the threshold is kept
        (0.25, [0, 1, 0, 0], True),
        (1.0, [1, 1, 1, 1], True),
        (0.2, [0, 1, 0, 0], False),  # none is below: the lowest stays
    ],
)
def test_losses_up_to_the_threshold_are_kept(threshold, kept, found):
    weights, any_below = keep_below(LOSSES, threshold)
    assert (weights.tolist(), any_below) == (kept, found)
    assert weights.dtype == LOSSES.dtype


def test_a_loss_at_an_edge_counts_below_it():
    losses = torch.tensor([0.1, 0.25, 0.3, 0.5, 0.7, torch.nan])
    assert histogram(losses, torch.tensor([0.25, 0.5])).tolist() == [2, 2, 2]
