"""Scores and intervals against Bayes' rule by hand and against simulated truth."""

from __future__ import annotations

import json
from dataclasses import asdict, astuple, replace

import numpy as np
import pytest

from audit.conftest import CLASSES, EXACT, draw_site
from fedsift.audit import Calibration
from fedsift.audit.calibration import FAMILIAR, fit_temperature, posterior
from fedsift.errors import InputError


def calibration_error(scores, right, bins=10):
    """Return the expected calibration error: Σ_b share_b |mean score_b − share right_b|."""
    place = np.minimum((scores * bins).astype(int), bins - 1)
    parts = [place == b for b in range(bins)]
    return sum(p.mean() * abs(scores[p].mean() - right[p].mean()) for p in parts if p.any())


def test_scores_follow_bayes_rule_at_the_true_rate():
    site = draw_site(0, samples=4000)
    scores = posterior(site.probabilities, site.labels, EXACT).right
    given = site.probabilities[np.arange(4000), site.labels]
    rate = (site.labels != site.truth).mean()
    by_hand = (1 - rate) * given / ((1 - rate) * given + rate * (1 - given) / (CLASSES - 1))
    np.testing.assert_allclose(scores, by_hand, atol=0.03)  # the site must estimate its rate


@pytest.mark.parametrize("rate", [0.15, 0.3, 0.7])
def test_of_samples_with_a_score_near_s_a_share_s_is_right(rate):
    site = draw_site(1, samples=4000, rate=rate)
    scores = posterior(site.probabilities, site.labels, EXACT).right
    assert calibration_error(scores, site.labels == site.truth) < 0.03
    overconfident = np.where(scores > 0.5, 1.0, 0.0)  # the check can fail
    assert calibration_error(overconfident, site.labels == site.truth) > 0.05


def test_intervals_cover_the_true_share():
    """200 sites at 95 %: fewer than 180 within has a probability below 0.2 %."""
    within = 0
    for seed in range(200):
        site = draw_site(seed, samples=100, rate=0.1 + 0.004 * seed)
        _, low, high = posterior(site.probabilities, site.labels, EXACT).wrong_share()
        within += low <= (site.labels != site.truth).mean() <= high
    assert 180 <= within < 200  # all 200 would mean intervals wider than they say


def test_classes_sum_to_one_and_agree_with_the_score():
    site = draw_site(2)
    belief = posterior(site.probabilities, site.labels, Calibration())
    np.testing.assert_allclose(belief.classes.sum(axis=1), 1.0)
    np.testing.assert_allclose(belief.classes[np.arange(400), site.labels], belief.right)


def test_optimism_lowers_every_score():
    site = draw_site(3)
    plain = posterior(site.probabilities, site.labels, EXACT).right
    wary = posterior(site.probabilities, site.labels, Calibration(optimism=1.0, spread=0.0)).right
    assert (wary < plain).all()


def test_certain_probabilities_give_finite_scores():
    probabilities = np.eye(3)[[0, 1, 2, 0]]
    belief = posterior(probabilities, np.array([0, 1, 2, 1]), Calibration())
    assert np.isfinite(belief.classes).all()
    assert belief.right[3] < 0.01
    assert belief.right[:3].min() > 0.9


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperature_is_found(temperature):
    site = draw_site(4, samples=20_000)
    wrong_scale = site.probabilities**temperature
    wrong_scale /= wrong_scale.sum(axis=1, keepdims=True)
    assert fit_temperature(wrong_scale, site.truth) == pytest.approx(temperature, rel=0.05)


@pytest.mark.parametrize(
    ("right", "skill"),
    [(4, 1.0), (3, (0.5 / 0.75) ** 4), (1, 0.0), (0, 0.0)],  # of 4; chance is 1 of 4
)
def test_optimism_and_doubt_go_with_the_models_skill(right, skill):
    truth = np.arange(4)
    said = np.where(truth < right, truth, (truth + 1) % 4)
    probabilities = 0.1 + 0.6 * np.eye(4)[said]
    calibration = Calibration.fit(probabilities, truth)
    raised = calibration.temperature / fit_temperature(probabilities, truth)
    assert raised == pytest.approx(1 + FAMILIAR * skill)
    assert calibration.optimism == pytest.approx(skill * Calibration.optimism)
    assert calibration.spread == pytest.approx(skill * Calibration.spread)


@pytest.mark.parametrize(
    ("classes", "right", "skill"),
    [(4, 4, 1.0), (4, 3, 16 / 81), (2, 3, 1 / 16)],  # of 4; ((4 · ¾ − 1) / 3)⁴, (2 · ¾ − 1)⁴
)
def test_constants_of_a_model_that_knows_no_class_better(classes, right, skill):
    """Equal probabilities say nothing of T, which is then 1; argmax takes class 0."""
    labels = np.where(np.arange(4) < right, 0, 1)
    found = Calibration.fit(np.full((4, classes), 1 / classes), labels)
    by_hand = (1 + 0.3 * skill, 1.5 * skill, 0.75 * skill, 1.5)
    assert astuple(found)[:4] == pytest.approx(by_hand, rel=1e-4)


def test_default_constants():
    assert astuple(Calibration()) == (1.0, 1.5, 0.75, 1.5, 0, None, 0.0)


def test_temperature_of_one_sample_balances_the_prior():
    """log T + u σ(−u) = 0 with u = log(p / (1 − p)) / T: solved by u = 1."""
    log_t = -1 / (1 + np.e)
    p = 1 / (1 + np.exp(-np.exp(log_t)))
    found = fit_temperature(np.array([[p, 1 - p]]), np.array([0]))
    assert found == pytest.approx(np.exp(log_t), rel=1e-4)


@pytest.mark.parametrize(("label", "end"), [(0, -3), (1, 3)])
def test_temperature_stays_between_its_bounds(label, end):
    probabilities = np.tile([0.55, 0.45], (2000, 1))
    found = fit_temperature(probabilities, np.full(2000, label))
    assert np.log(found) == pytest.approx(end, abs=1e-3)


def scores_by_hand(evidence, optimism, spread):
    """P(right) of the only sample of a site.

    The density of ρ is linear, 1 + ρ (R − 1), so its quantiles solve a quadratic equation; the
    grid of 200 cells gives the middle of a cell for its end, 1/400 less.
    """
    total, scale = 0.0, 0.0
    for node in (-1.6, -0.8, 0.0, 0.8, 1.6):
        slope = np.exp(evidence + optimism + spread * node) - 1
        for q in (np.arange(9) + 0.5) / 9:
            rate = (np.sqrt(1 + slope * q * (2 + slope)) - 1) / slope - 1 / 400
            mass = np.exp(-(node**2) / 2)
            total += mass * (1 - rate) / (1 + rate * slope)
            scale += mass
    return total / scale


@pytest.mark.parametrize(
    "settings", [{}, {"optimism": 0.5}, {"spread": 2.0}, {"temperature": 2.0}], ids=str
)
def test_score_of_a_single_sample(settings):
    calibration = Calibration(**settings)
    p = np.array([0.2, 0.5, 0.3])
    tempered = p ** (1 / calibration.temperature)
    given = tempered[0] / tempered.sum()
    evidence = np.log((1 - given) / given / 2)  # one of the two other classes
    by_hand = scores_by_hand(evidence, calibration.optimism, calibration.spread)
    found = posterior(p[None], np.array([0]), calibration)
    assert found.right[0] == pytest.approx(by_hand, abs=2e-5)
    assert found.classes[0, 1:] == pytest.approx(
        (1 - found.right[0]) * tempered[1:] / tempered[1:].sum()
    )


@pytest.mark.parametrize("samples", [1, 7])
def test_interval_of_a_site_without_evidence(samples):
    """Every ρ is as likely: its 9 quantiles have mean ½ − 1/400 and variance 80 / 972."""
    calibration = Calibration(optimism=0.0, spread=0.0, misfit=0.3)
    labels = np.zeros(samples, dtype=np.int64)
    found = posterior(np.full((samples, 2), 0.5), labels, calibration)
    mean, between = 0.5 - 1 / 400, 80 / 972
    drawn = (mean * (1 - mean) - between) / samples
    half = 1.96 * 0.3 * np.sqrt(drawn + between)
    assert found.wrong_share() == pytest.approx((mean, mean - half, mean + half), abs=1e-4)


def test_no_interval_is_narrower_than_the_measurement_that_it_rests_on():
    """Labels beyond doubt leave nothing drawn and nothing between the values of δ."""
    sure = np.tile([1 - 1e-12, 1e-12], (4000, 1))
    labels = np.repeat([0, 1], [2400, 1600])
    _, low, high = posterior(sure, labels, Calibration()).wrong_share()
    assert high - low < 0.02
    _, low, high = posterior(sure, labels, Calibration(rate_error=0.03)).wrong_share()
    assert (low + high) / 2 == pytest.approx(0.4, abs=1e-3)
    assert high - low == pytest.approx(2 * 1.96 * 0.03, rel=0.02)


def test_no_member_has_no_share():
    found = posterior(np.full((2, 2), 0.5), np.zeros(2, dtype=np.int64), EXACT)
    assert found.wrong_share(np.zeros(2, dtype=bool)) == (0.0, 0.0, 1.0)


def test_a_model_of_one_class_has_no_skill():
    calibration = Calibration.fit(np.ones((3, 1)), np.zeros(3, dtype=np.int64))
    assert (calibration.optimism, calibration.spread) == (0.0, 0.0)


def test_a_weak_model_does_not_suspect_every_label():
    known, site = (draw_site(seed, samples=500, sharpness=2.0) for seed in (5, 6))
    wrong = (site.labels != site.truth).mean()

    def audit(calibration):
        return posterior(site.probabilities, site.labels, calibration)

    belief = audit(Calibration.fit(known.probabilities, known.truth))
    _, low, high = belief.wrong_share()
    assert low <= wrong <= high
    assert (belief.right < 0.5).mean() < 0.6
    assert (audit(Calibration()).right < 0.5).mean() > 0.95  # as if it had memorised them


def test_calibration_is_read_back_from_json():
    calibration = Calibration(0.7, 1.5, 0.2, 1.1)
    assert Calibration.from_mapping(asdict(calibration)) == calibration
    assert Calibration.from_mapping(None) == Calibration()
    with pytest.raises(InputError, match="a value that is not a number"):
        Calibration.from_mapping({"temperature": "hot"})


LACKING = replace(EXACT, judged=(True, True, True, True, False))


def test_labels_that_cannot_be_judged_say_nothing():
    """Not of themselves, and not of the others: these are as if the site had no such labels."""
    site = draw_site(7)
    lacking, judged = site.labels == 4, site.labels != 4
    found = posterior(site.probabilities, site.labels, LACKING)
    alone = posterior(site.probabilities[judged], site.labels[judged], EXACT)
    np.testing.assert_allclose(found.right[judged], alone.right)
    assert np.ptp(found.right[lacking]) < 1e-12  # one number for all: the site's share
    assert found.right[lacking][0] == pytest.approx(1 - alone.wrong_share()[0], abs=0.02)
    assert not found.flagged[lacking].any()
    assert (found.flagged[judged] == (alone.right < 0.5)).all()


def test_the_interval_allows_that_they_are_all_right_or_all_wrong():
    site = draw_site(7)
    judged = site.labels != 4
    q = judged.mean()
    found = posterior(site.probabilities, site.labels, LACKING)
    estimate, low, high = posterior(
        site.probabilities[judged], site.labels[judged], EXACT
    ).wrong_share()
    assert found.wrong_share() == pytest.approx((estimate, q * low, q * high + 1 - q))
    assert found.wrong_share(~judged)[1:] == (0.0, 1.0)


def test_a_site_with_nothing_but_such_labels_is_not_flagged():
    labels = np.full(3, 4)
    found = posterior(np.full((3, CLASSES), 0.2), labels, LACKING)
    assert not found.flagged.any()
    assert found.order == pytest.approx(np.full(3, 0.5), abs=0.01)
    assert found.wrong_share() == pytest.approx((0.5, 0.0, 1.0), abs=0.01)


def test_a_class_is_judged_if_it_has_a_clean_sample():
    labels = np.array([0, 0, 1, 3, 3, 3])
    found = Calibration.fit(np.full((6, 4), 0.25), labels)
    assert found.judged == (True, True, False, True)
    assert found.samples == 6


def test_nothing_is_surer_than_laplaces_rule_allows():
    assert Calibration(samples=8).known(np.array([0.0, 0.3, 1.0])) == pytest.approx([0.1, 0.3, 0.9])
    assert Calibration().known(np.array([1e-14])) == 1e-14  # not known how many there were


def test_judged_classes_must_be_those_of_the_model():
    with pytest.raises(InputError, match="for 5 classes but its model has 3"):
        posterior(np.full((2, 3), 1 / 3), np.zeros(2, dtype=np.int64), LACKING)


def test_what_is_judged_goes_through_json():
    found = Calibration.from_mapping(json.loads(json.dumps(LACKING.to_json())))
    assert found == LACKING
    with pytest.raises(InputError, match="does not say whether they are judged"):
        Calibration.from_mapping({"judged": [1, 0]})
