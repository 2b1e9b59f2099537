"""The summary of a site against counts of the simulated truth."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from audit.conftest import CLASSES, EXACT, draw_site
from fedsift.audit.calibration import posterior
from fedsift.audit.summary import summarise

NAMES = tuple("abcde")


@pytest.fixture
def site():
    return draw_site(5, samples=3000, sharpness=15.0)


@pytest.fixture
def summary(site):
    belief = posterior(site.probabilities, site.labels, EXACT)
    weights = torch.from_numpy(belief.right > 0.5).float()
    return summarise(torch.from_numpy(site.labels), weights, belief, NAMES)


def test_shares_cover_the_truth(site, summary):
    wrong = site.labels != site.truth
    assert summary.wrong.low <= wrong.mean() <= summary.wrong.high
    assert summary.wrong.high - summary.wrong.low < 0.1
    for number, row in enumerate(summary.classes):
        members = site.labels == number
        assert row.label == NAMES[number]
        assert row.samples == members.sum()
        assert row.wrong.estimate == pytest.approx(wrong[members].mean(), abs=0.05)


def test_confused_pairs_count_what_was_confused(site, summary):
    counts = np.zeros((CLASSES, CLASSES))
    np.add.at(counts, (site.labels, site.truth), 1)
    for pair in summary.confused:
        counted = counts[NAMES.index(pair.label), NAMES.index(pair.truth)]
        assert pair.expected == pytest.approx(counted, abs=15)
    expected = [pair.expected for pair in summary.confused]
    assert expected == sorted(expected, reverse=True)


def test_equal_weights_are_as_many_as_they_are(summary):
    assert summary.effective_samples == pytest.approx(summary.samples - summary.flagged)


def test_only_counts_leave_the_site(summary):
    assert summary.shared() == {"samples": 3000, "flagged": summary.flagged}


def test_a_class_that_cannot_be_judged(site):
    belief = posterior(
        site.probabilities, site.labels, replace(EXACT, judged=(True,) * 4 + (False,))
    )
    summary = summarise(torch.from_numpy(site.labels), torch.ones(3000), belief, NAMES)
    assert summary.unjudged == ("e",)
    last = summary.classes[4]
    assert (last.flagged, last.judged, last.wrong.low, last.wrong.high) == (0, False, 0.0, 1.0)
    assert all(pair.label != "e" for pair in summary.confused)
    assert any(pair.truth == "e" for pair in summary.confused)
