from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedsift.data import NOISES
from fedsift.data.noise import effective_rate, rates
from fedsift.data.noise.pair import pair
from fedsift.data.noise.symmetric import symmetric
from fedsift.errors import DataError
from fedsift.randomness import generator

quick = settings(deadline=None, max_examples=60)
rate = st.floats(0, 1)
seeds = st.integers(0, 2**32)


@st.composite
def labelled(draw):
    classes = draw(st.integers(2, 12))
    labels = draw(st.lists(st.integers(0, classes - 1), min_size=1, max_size=80))
    return torch.tensor(labels), classes


@quick
@given(labelled(), rate, seeds, st.sampled_from([symmetric, pair]))
def test_exactly_the_asked_number_of_labels_is_wrong(case, rate, seed, noise):
    labels, classes = case
    noisy = noise(labels, rate, classes, generator(seed))
    wrong = sum(a != b for a, b in zip(noisy.tolist(), labels.tolist(), strict=True))
    assert wrong == round(rate * len(labels))
    assert effective_rate(noisy, labels) == pytest.approx(wrong / len(labels), abs=1e-12)
    assert set(noisy.tolist()) <= set(range(classes))


@quick
@given(labelled(), rate, seeds)
def test_pair_moves_to_the_next_class(case, rate, seed):
    labels, classes = case
    noisy = pair(labels, rate, classes, generator(seed))
    for new, old in zip(noisy.tolist(), labels.tolist(), strict=True):
        assert new in (old, (old + 1) % classes)


def uniformity(noise) -> float:
    """Return the p-value of "class 3 goes to the 9 other classes alike" over 9,000 samples."""
    labels = torch.full((9000,), 3)
    counts = noise(labels, 1.0, 10, generator(0)).bincount(minlength=10).tolist()
    return stats.chisquare(counts[:3] + counts[4:]).pvalue


def test_symmetric_noise_is_uniform_over_the_other_classes():
    def low_half_twice_as_often(labels, rate, classes, random):
        noisy = symmetric(labels, rate, classes, random)
        return torch.where((noisy > 6) & (torch.arange(len(noisy)) % 2 == 0), 0, noisy)

    assert uniformity(symmetric) > 1e-3
    assert uniformity(low_half_twice_as_often) < 1e-3


@pytest.mark.parametrize("name", NOISES)
def test_the_true_labels_are_left_alone(name):
    labels = torch.arange(10)
    NOISES[name](labels, 1.0, 10, generator(0))[:] = -1
    assert labels.tolist() == list(range(10))


def test_one_rate_is_the_same_for_all_clients():
    assert rates(3, 0.4, generator(0)) == [0.4, 0.4, 0.4]


def test_a_pair_of_rates_is_drawn_uniformly_between_its_bounds():
    drawn = rates(2000, (0.2, 0.9), generator(0))
    assert stats.kstest(drawn, stats.uniform(0.2, 0.7).cdf).pvalue > 1e-3
    assert stats.kstest(drawn, stats.uniform(0.2, 0.8).cdf).pvalue < 1e-3


@pytest.mark.parametrize(
    "act",
    [
        lambda g: symmetric(torch.arange(4), 1.2, 4, g),
        lambda g: symmetric(torch.arange(4), float("nan"), 4, g),
        lambda g: pair(torch.zeros(4, dtype=torch.long), 0.5, 1, g),
        lambda g: rates(3, -0.1, g),
        lambda g: rates(3, (0.9, 0.2), g),
        lambda g: rates(3, (0.2, 1.9), g),
        lambda g: rates(3, (0.2, 0.3, 0.4), g),
    ],
)
def test_an_impossible_rate_is_refused(act):
    with pytest.raises(DataError, match="noise"):
        act(generator(0))
