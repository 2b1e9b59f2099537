"""The audit by the noise model: Bayes by hand, intervals that hold, the fallback, its JSON."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import softmax

from fedsift.audit import Calibration, NoiseCalibration, read_calibration
from fedsift.errors import InputError
from fedsift.problem.noise_model import Confusion

CLASSES = 4
UNIFORM = torch.full((CLASSES, CLASSES), 0.1, dtype=torch.float64).fill_diagonal_(0.7).log()


def calibration(beta=0.0, accuracy=0.8, **changes):
    models = Confusion(UNIFORM), Confusion(UNIFORM, beta)
    found = NoiseCalibration.fit(np.eye(CLASSES)[[0, 1, 2, 3] * 2], np.arange(8) % 4, models)
    return replace(found, temperature=1.0, accuracy=accuracy, samples=400, **changes)


def site(rate, n=400, seed=0, sharpness=2.0):
    """Return probabilities, labels and which are wrong; wrong ones are any other class."""
    random = np.random.default_rng(seed)
    p = softmax(sharpness * random.normal(size=(n, CLASSES)), axis=1)
    true = np.array([random.choice(CLASSES, p=row) for row in p])
    wrong = random.random(n) < rate
    labels = np.where(wrong, (true + random.integers(1, CLASSES, n)) % CLASSES, true)
    return p, labels, labels != true


def test_a_score_is_bayes_rule_with_the_rate_of_the_site():
    p, labels, wrong = site(0.3, n=4000)
    belief = calibration().posterior(p, labels)
    given, rate = p[np.arange(4000), labels], wrong.mean()
    by_hand = (1 - rate) * given / ((1 - rate) * given + rate * (1 - given) / 3)
    assert belief.right == pytest.approx(by_hand, abs=0.03)
    assert np.allclose(belief.classes.sum(axis=1), 1)
    assert np.allclose(belief.classes[np.arange(4000), labels], belief.right)


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.4, 0.7])
def test_intervals_hold_and_scores_are_probabilities(rate):
    inside = 0
    for seed in range(20):
        p, labels, wrong = site(rate, seed=seed)
        belief = calibration().posterior(p, labels)
        estimate, low, high = belief.wrong_share()
        assert low <= estimate <= high
        inside += low <= wrong.mean() <= high
        assert (1 - belief.right).mean() == pytest.approx(wrong.mean(), abs=0.12)
    assert inside >= 18


def test_where_labels_depend_on_the_sample_the_clean_heads_judge_alone():
    p, labels, _ = site(0.3)
    belief = calibration(beta=0.9).posterior(p, labels)
    assert np.array_equal(belief.flagged, p.argmax(axis=1) != labels)
    estimate, low, high = belief.wrong_share()
    assert estimate == pytest.approx((p.argmax(axis=1) != labels).mean())
    error = 0.2 + 1.645 * np.sqrt(0.2 * 0.8 * (1 / 400 + 1 / 400))
    assert (estimate - low, high - estimate) == pytest.approx((error, error))
    assert "depends on the sample" in belief.basis
    assert "noise model" in calibration(beta=0.2).posterior(p, labels).basis


def test_a_share_of_few_labels_may_be_all_of_the_heads_errors():
    p, labels, _ = site(0.3)
    belief = calibration(beta=0.9).posterior(p, labels)
    members = np.arange(400) < 40
    assert belief.wrong_share(members)[1:] == (0.0, 1.0)  # 0.2 of 400 labels is more than 40


def test_classes_that_the_clean_set_lacks_are_not_judged():
    p, labels, _ = site(0.3)
    belief = calibration(judged=(True, True, True, False)).posterior(p, labels)
    unjudged = labels == 3
    assert not belief.flagged[unjudged].any()
    assert (belief.order[unjudged] >= 0.5).all()
    assert belief.wrong_share(unjudged)[1:] == (0.0, 1.0)
    _, low, high = belief.wrong_share()
    assert high - low > unjudged.mean()


def test_a_site_without_a_shared_model_fits_its_own():
    p, labels, wrong = site(0.3, n=2000, sharpness=4.0)
    own = replace(calibration(), plain=None, free=None)
    _, low, high = own.posterior(p, labels).wrong_share()
    assert low <= wrong.mean() <= high


@pytest.mark.parametrize("given", [calibration(0.3), replace(calibration(), plain=None, free=None)])
def test_it_survives_json(given):
    assert read_calibration(json.loads(json.dumps(given.to_json()))) == given
    assert isinstance(read_calibration({"temperature": 2.0}), Calibration)


@pytest.mark.parametrize(
    "change",
    [
        *({"temperature": -1.0}, {"accuracy": float("nan")}, {"beta": "much"}),
        *({"plain": [[1.0]]}, {"free": [[0.0] * 4] * 3}, {"judged": None}),
    ],
)
def test_what_is_not_a_noise_model_is_refused(change):
    with pytest.raises(InputError, match="noise model of this run cannot be read"):
        read_calibration({**calibration().to_json(), **change})


def test_probabilities_of_other_classes_are_refused():
    with pytest.raises(InputError, match="for 4 classes but its model has 3"):
        calibration().posterior(np.full((2, 3), 1 / 3), np.zeros(2, dtype=np.int64))
