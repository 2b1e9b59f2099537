"""The audit by the noise model: Bayes by hand, intervals that hold, the fallback, its JSON."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import softmax

from fedsift.audit import Calibration, NoiseCalibration, read_calibration
from fedsift.audit.noise_posterior import by_model
from fedsift.errors import InputError
from fedsift.problem.noise_model import Confusion
from fedsift.problem.noise_models import NoiseModels

CLASSES = 4
UNIFORM = torch.full((CLASSES, CLASSES), 0.1, dtype=torch.float64).fill_diagonal_(0.7).log()


def calibration(beta=0.0, accuracy=0.8, **changes):
    betas = torch.tensor([0.0, beta, beta], dtype=torch.float64)
    models = NoiseModels(UNIFORM.repeat(3, 1, 1), betas)
    found = NoiseCalibration.fit(np.eye(CLASSES)[[0, 1, 2, 3] * 2], np.arange(8) % 4, 0.7, models)
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


def confused(n=400, seed=0):
    """Return a site whose labels are what the heads take samples for, and which are wrong."""
    p, true, _ = site(0.0, n, seed)
    return p, p.argmax(axis=1), p.argmax(axis=1) != true


def test_where_labels_depend_on_the_sample_the_clean_heads_judge_alone():
    p, labels, _ = confused()
    clean = site(0.0, seed=5)[0]
    belief = calibration().posterior(p, labels, clean)
    assert belief.beta > 1
    assert belief.right == pytest.approx(clean[np.arange(400), labels])
    estimate, low, high = belief.wrong_share()
    assert estimate == pytest.approx(1 - belief.right.mean())
    d = (clean.argmax(axis=1) != labels).mean()
    error = 0.3 + 1.645 * np.sqrt(0.3 * 0.7 * (1 / 400 + 1 / 400))
    assert (low, high) == pytest.approx((d - error, min(1.0, d + error)))
    assert "depends on the sample" in belief.basis


def test_without_clean_heads_the_trained_ones_judge_alone():
    p, labels, _ = confused()
    belief = calibration().posterior(p, labels)
    assert np.array_equal(belief.flagged, p.max(axis=1) < 0.5)
    error = 0.2 + 1.645 * np.sqrt(0.2 * 0.8 * (1 / 400 + 1 / 400))
    wrong = min(error, 1 - p.max(axis=1).mean())  # not outside its own interval
    assert belief.wrong_share() == pytest.approx((wrong, 0.0, error))


def test_labels_that_are_all_right_are_taken_for_right_in_a_wide_interval():
    p, labels, wrong = site(0.0)
    belief = calibration().posterior(p, labels, p)
    assert 0.5 < belief.beta < 1
    assert belief.flagged.mean() < 0.05
    estimate, low, high = belief.wrong_share()
    assert low == wrong.mean() == 0.0
    d = (p.argmax(axis=1) != labels).mean()
    assert high == pytest.approx(d + 0.3 + 1.645 * np.sqrt(0.3 * 0.7 * (1 / 400 + 1 / 400)))
    assert estimate < 0.12
    assert "hardly any is wrong, or" in belief.basis


def test_beta_is_the_own_one_of_the_site():
    """At one site labels follow the class, at the other the sample; the server knows neither."""
    bases = [calibration(0.2).posterior(*found[:2]).basis for found in (site(0.3), confused())]
    assert "scores and intervals are those of a noise model" in bases[0]
    assert "judged by the clean set alone" in bases[1]


def test_the_trained_model_counts_as_far_as_the_clean_heads_are_weak():
    p, labels, _ = site(0.3, n=1000)
    steep = tuple(map(tuple, (UNIFORM + torch.eye(CLASSES).double() * 2).tolist()))
    scores = []
    for beta in (0.0, 0.1, 0.9):
        found = replace(calibration(beta=beta), trained=steep, trained_beta=0.0)
        scores.append(found.posterior(p, labels))
    only = replace(calibration(), free=steep, trained=steep).posterior(p, labels).right
    assert scores[0].right == pytest.approx(by_free(p, labels, 0.0))
    assert scores[2].right == pytest.approx(only)
    mixed = 0.04 * only + 0.96 * by_free(p, labels, 0.1)
    assert scores[1].right == pytest.approx(mixed, abs=1e-9)
    assert "cannot tell it" in scores[2].basis
    assert "cannot tell it" not in scores[1].basis


def by_free(p, labels, beta):
    """Return the score of a model with this β alone."""
    right, _ = by_model(Confusion(UNIFORM, beta), np.log(p), labels)
    return right.mean(axis=0)


def test_an_interval_has_those_of_all_models_in_it():
    p, labels, _ = site(0.3)
    clean = site(0.3, seed=3)[0]
    steep = tuple(map(tuple, (UNIFORM + torch.eye(CLASSES).double() * 2).tolist()))
    found = replace(calibration(), trained=steep)
    pairs = [(found.free, None), (steep, None), (found.free, clean)]
    low, high = found.posterior(p, labels, clean).wrong_share()[1:]
    for matrix, other in pairs:
        same = replace(found, free=matrix, trained=matrix, plain=matrix)
        one = same.posterior(p if other is None else other, labels).wrong_share()
        assert low <= one[1]
        assert one[2] <= high


def test_a_share_of_few_labels_may_be_all_of_the_heads_errors():
    p, labels, _ = confused()
    belief = calibration().posterior(p, labels, site(0.0, seed=5)[0])
    members = np.arange(400) < 40
    assert belief.wrong_share(members)[1:] == (0.0, 1.0)  # 0.3 of 400 labels is more than 40


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
    own = replace(calibration(), plain=None, free=None, trained=None)
    _, low, high = own.posterior(p, labels).wrong_share()
    assert low <= wrong.mean() <= high


OWN = replace(calibration(), plain=None, free=None, trained=None)


@pytest.mark.parametrize("given", [calibration(0.3), OWN])
def test_it_survives_json(given):
    assert read_calibration(json.loads(json.dumps(given.to_json()))) == given
    assert isinstance(read_calibration({"temperature": 2.0}), Calibration)


@pytest.mark.parametrize(
    "change",
    [
        *({"temperature": -1.0}, {"accuracy": float("nan")}, {"beta": "much"}),
        *({"trained_beta": float("inf")}, {"trained": [[0.0] * 4] * 5}),
        *({"plain": [[1.0]]}, {"free": [[0.0] * 4] * 3}, {"judged": None}),
    ],
)
def test_what_is_not_a_noise_model_is_refused(change):
    with pytest.raises(InputError, match="noise model of this run cannot be read"):
        read_calibration({**calibration().to_json(), **change})


def test_probabilities_of_other_classes_are_refused():
    with pytest.raises(InputError, match="for 4 classes but its model has 3"):
        calibration().posterior(np.full((2, 3), 1 / 3), np.zeros(2, dtype=np.int64))
