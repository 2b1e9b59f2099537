"""A class that the clean set lacks: trained, audited, compared with the truth."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn

import fedsift as fs
from fedsift.experiment.auditing import audit_client, calibrate

CLASSES, LACKING, SITES = 3, 2, 3


@dataclass(frozen=True)
class Case:
    """A trained federation, which labels are wrong, and the labels."""

    result: fs.Result
    wrong: list[np.ndarray]
    labels: list[np.ndarray]

    def audit(self, site, **changes):
        calibration = replace(calibrate(self.result.setup, self.result.state), **changes)
        return audit_client(self.result.setup, self.result.state.y, site, calibration)


@pytest.fixture(scope="module")
def case():
    """Return sites with 30 % wrong labels, and a clean set without the last class."""
    random = np.random.default_rng(4)
    means = random.normal(size=(CLASSES, 6))
    means *= 3 / np.linalg.norm(means, axis=1, keepdims=True)

    def draw(n):
        truth = random.integers(0, CLASSES, n)
        return (means[truth] + random.normal(size=(n, 6))).astype(np.float32), truth

    inputs, truth = draw(240)
    clean = np.flatnonzero(truth != LACKING)[:60]
    validation, sites, wrong = (inputs[clean], truth[clean]), [], []
    for _ in range(SITES):
        inputs, truth = draw(150)
        shift = random.integers(1, CLASSES, 150) * (random.random(150) < 0.3)
        sites.append((inputs, (truth + shift) % CLASSES))
        wrong.append(shift > 0)
    model = nn.Linear(6, CLASSES)
    nn.init.zeros_(model.weight), nn.init.zeros_(model.bias)
    with torch.random.fork_rng():
        result = fs.fit(fs.simulate(model, sites, validation), rounds=30, seed=4)
    return Case(result, wrong, [labels for _, labels in sites])


def test_if_it_were_judged_most_of_its_labels_would_be_flagged(case):
    """And the interval for the share of wrong labels would miss the truth."""
    audit = case.audit(0, judged=None)
    flags = audit.table.sort_values("index")["is_label_issue"].to_numpy()
    assert flags[case.labels[0] == LACKING].mean() > 0.8
    assert audit.summary.wrong.low > case.wrong[0].mean()


@pytest.mark.parametrize("site", range(SITES))
def test_its_labels_are_not_flagged_and_the_interval_holds(case, site):
    audit = case.audit(site)
    flags = audit.table.sort_values("index")["is_label_issue"].to_numpy()
    assert not flags[case.labels[site] == LACKING].any()
    assert flags[case.labels[site] != LACKING].any()
    share = audit.summary.wrong
    assert share.low <= case.wrong[site].mean() <= share.high
    assert audit.summary.unjudged == (str(LACKING),)
