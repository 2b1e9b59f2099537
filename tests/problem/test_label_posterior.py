"""Bayes' rule on labels: against sums by hand, SciPy, and labels whose truth is known."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar

from fedsift.problem.label_posterior import (
    OPTIMISMS,
    evidence,
    known_optimism,
    known_rate,
    rate,
    rates,
    right,
)

CLASSES, SAMPLES, SHARE = 5, 4000, 0.3


def drawn(seed=0):
    """Return calibrated probabilities, and labels of which SHARE are wrong."""
    source = np.random.default_rng(seed)
    logits = 3 * source.standard_normal((SAMPLES, CLASSES))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    true = np.array([source.choice(CLASSES, p=row) for row in p])
    wrong = source.random(SAMPLES) < SHARE
    given = np.where(wrong, (true + source.integers(1, CLASSES, SAMPLES)) % CLASSES, true)
    return torch.from_numpy(p), torch.from_numpy(given), torch.from_numpy(given == true)


def memorised(p, labels, nats):
    """Return the probabilities of a model that believes every label more, by some nats."""
    logs = p.log()
    logs[torch.arange(len(labels)), labels] += nats
    return logs.softmax(dim=1)


def log_likelihood(share, found, optimism=0.0):
    return sum(math.log(1 - share + share * math.exp(e + optimism)) for e in found.tolist())


def test_evidence_of_a_label():
    p = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])
    expected = [math.log(0.8 / 2 / 0.2), math.log(0.9 / 2 / 0.1)]
    torch.testing.assert_close(evidence(p, torch.tensor([1, 0])), torch.tensor(expected).double())


def test_a_certain_label_stays_finite():
    p = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert evidence(p, torch.tensor([0, 0])).tolist() == [pytest.approx(-36.8, abs=0.2), 50.0]


@pytest.mark.parametrize("optimism", [-1.0, 0.0, 1.5])
def test_a_rate_is_the_likeliest(optimism):
    p, labels, _ = drawn()
    found = evidence(p, labels)[:400]
    best = minimize_scalar(
        lambda share: -log_likelihood(share, found, optimism),
        bounds=(1e-3, 0.999),
        method="bounded",
    )
    assert rate(found, optimism) == pytest.approx(best.x, abs=1e-4)


def test_a_curve_has_the_rates_of_its_points_and_rises():
    found = evidence(*drawn()[:2])
    values = rates(found, found.new_tensor(OPTIMISMS))
    assert values.tolist() == pytest.approx([rate(found, point) for point in OPTIMISMS])
    assert bool((values.diff() >= 0).all())


def test_what_is_known_of_a_rate_is_its_posterior():
    p, labels, _ = drawn()
    found = evidence(p, labels)[:60]

    def moment(power):
        return quad(lambda r: r**power * math.exp(log_likelihood(r, found) + 60), 0, 1)[0]

    mean = moment(1) / moment(0)
    known = known_rate(found)
    assert known.mean == pytest.approx(mean, abs=1e-4)
    assert known.variance == pytest.approx(moment(2) / moment(0) - mean**2, rel=0.02)


def test_right_is_calibrated_where_the_probabilities_are():
    p, labels, truth = drawn()
    found = evidence(p, labels)
    scores = right(found, rate(found))
    for low in (0.1, 0.4, 0.7):
        inside = (scores >= low) & (scores < low + 0.3)
        n = int(inside.sum())
        assert abs(float(scores[inside].mean() - truth[inside].double().mean())) < 2 / n**0.5


def test_memorised_labels_hide_wrong_ones_until_the_optimism_is_matched():
    p, labels, truth = drawn()
    unseen = known_rate(evidence(p, labels))
    assert abs(unseen.mean - SHARE) < 4 * unseen.variance**0.5
    found = evidence(memorised(p, labels, 1.5), labels)
    assert rate(found) < SHARE - 0.1
    known = known_optimism(
        rates(found, found.new_tensor(OPTIMISMS)), unseen.mean, unseen.variance**0.5
    )
    optimism = known.mean
    assert optimism == pytest.approx(1.5, abs=3 * known.variance**0.5)
    assert known.variance**0.5 < 0.25
    scores = right(found, rate(found, optimism), optimism)
    assert float((1 - scores).mean()) == pytest.approx(SHARE, abs=0.03)
    assert float(((scores > 0.5) == truth).double().mean()) > float(
        ((right(found, rate(found)) > 0.5) == truth).double().mean()
    )


def test_without_evidence_optimism_is_as_the_prior_says():
    flat = torch.full((len(OPTIMISMS),), 0.3, dtype=torch.float64)
    known = known_optimism(flat, 0.5, 0.01)
    assert known.mean == pytest.approx(2 * math.sqrt(2 / math.pi), abs=0.05)  # a half normal
    assert known.variance == pytest.approx(4 * (1 - 2 / math.pi), rel=0.05)


def test_a_rate_below_the_curve_leaves_no_optimism():
    curve_from = torch.tensor(OPTIMISMS, dtype=torch.float64) / 10 + 0.2
    assert known_optimism(curve_from, 0.1, 0.005).mean < 0.05


def test_rates_of_several_sites_at_once_and_at_the_ends_of_their_range():
    source = torch.Generator().manual_seed(0)
    drawn_from = 3 * torch.randn(50, generator=source, dtype=torch.float64) - 3
    mixed = torch.where(torch.arange(50) < 15, 50.0, -50.0).double()
    found = torch.stack([drawn_from, -10 * drawn_from, mixed, torch.full_like(mixed, -50)])
    together = rates(found, found.new_tensor(OPTIMISMS))
    for own, row in zip(together, found, strict=True):
        for value, optimism in zip(own, OPTIMISMS, strict=True):
            gain = (row + optimism).clamp(-50, 50).expm1()

            def slope(share, gain=gain):
                return float((gain / (1 + share * gain)).sum())

            low, high = 1 / 52, 51 / 52
            at_end = low if slope(low) <= 0 else high if slope(high) >= 0 else None
            expected = brentq(slope, low, high, xtol=1e-12) if at_end is None else at_end
            assert float(value) == pytest.approx(expected, abs=1e-9)
