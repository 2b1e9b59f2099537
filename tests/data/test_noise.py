from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedsift.data import NOISES
from fedsift.data.noise import About, Outside, effective_rate, rates
from fedsift.data.noise.human import human
from fedsift.data.noise.instance import instance
from fedsift.data.noise.mixed import KINDS, mixed
from fedsift.data.noise.pair import pair
from fedsift.data.noise.symmetric import symmetric
from fedsift.errors import DataError
from fedsift.randomness import generator

quick = settings(deadline=None, max_examples=60)
rate = st.floats(0, 1)
seeds = st.integers(0, 2**32)


def about(labels, classes=10, column=""):
    """Return inputs whose first column is the class, or the next one for every third sample."""
    inputs = torch.nn.functional.one_hot(labels, classes).double()
    inputs[::3] = inputs[::3].roll(1, dims=1)
    known = torch.arange(8 * classes) % classes
    outside = Outside("x", classes, lambda n: (torch.eye(classes)[known][:n], known[:n]))
    people = {"first": (labels + 1) % classes, "second": (labels + 2) % classes}
    return About("x", inputs, outside, people, column)


NOTHING = about(torch.zeros(1, dtype=torch.long))
PINNED = {
    "symmetric": [0, 0, 2, 4, 1, 7, 6, 7, 8, 9],
    "pair": [0, 2, 2, 4, 5, 6, 6, 7, 8, 9],
    "none": list(range(10)),
}


@st.composite
def labelled(draw):
    classes = draw(st.integers(2, 12))
    labels = draw(st.lists(st.integers(0, classes - 1), min_size=1, max_size=80))
    return torch.tensor(labels), classes


@quick
@given(labelled(), rate, seeds, st.sampled_from([symmetric, pair, instance, mixed]))
def test_exactly_the_asked_number_of_labels_is_wrong(case, rate, seed, noise):
    labels, classes = case
    noisy = noise(labels, rate, classes, generator(seed), about(labels, classes))
    wrong = sum(a != b for a, b in zip(noisy.tolist(), labels.tolist(), strict=True))
    assert wrong == round(rate * len(labels))
    assert effective_rate(noisy, labels) == pytest.approx(wrong / len(labels), abs=1e-12)
    assert set(noisy.tolist()) <= set(range(classes))


@quick
@given(labelled(), rate, seeds)
def test_pair_moves_to_the_next_class(case, rate, seed):
    labels, classes = case
    noisy = pair(labels, rate, classes, generator(seed), NOTHING)
    for new, old in zip(noisy.tolist(), labels.tolist(), strict=True):
        assert new in (old, (old + 1) % classes)


def uniformity(noise) -> float:
    """Return the p-value of "class 3 goes to the 9 other classes alike" over 9,000 samples."""
    labels = torch.full((9000,), 3)
    counts = noise(labels, 1.0, 10, generator(0), NOTHING).bincount(minlength=10).tolist()
    return stats.chisquare(counts[:3] + counts[4:]).pvalue


def test_symmetric_noise_is_uniform_over_the_other_classes():
    def low_half_twice_as_often(labels, rate, classes, random, about):
        noisy = symmetric(labels, rate, classes, random, about)
        return torch.where((noisy > 6) & (torch.arange(len(noisy)) % 2 == 0), 0, noisy)

    assert uniformity(symmetric) > 1e-3
    assert uniformity(low_half_twice_as_often) < 1e-3


@pytest.mark.parametrize("name", NOISES)
def test_the_true_labels_are_left_alone(name):
    labels = torch.arange(10)
    NOISES[name](labels, 1.0, 10, generator(0), about(labels))[:] = -1
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
        lambda g: symmetric(torch.arange(4), 1.2, 4, g, NOTHING),
        lambda g: symmetric(torch.arange(4), float("nan"), 4, g, NOTHING),
        lambda g: pair(torch.zeros(4, dtype=torch.long), 0.5, 1, g, NOTHING),
        lambda g: instance(torch.arange(4), -0.1, 4, g, NOTHING),
        lambda g: rates(3, -0.1, g),
        lambda g: rates(3, (0.9, 0.2), g),
        lambda g: rates(3, (0.2, 1.9), g),
        lambda g: rates(3, (0.2, 0.3, 0.4), g),
    ],
)
def test_an_impossible_rate_is_refused(act):
    with pytest.raises(DataError, match="noise"):
        act(generator(0))


def test_the_seed_gives_the_labels_that_it_gave_before_there_were_other_kinds():
    labels = torch.arange(10)
    drawn = {n: NOISES[n](labels, 0.4, 10, generator(7), NOTHING).tolist() for n in PINNED}
    assert drawn == PINNED


def test_instance_noise_falls_on_the_samples_that_look_like_another_class():
    labels = torch.arange(30) % 10
    noisy = instance(labels, 1 / 3, 10, generator(0), about(labels))
    assert (noisy != labels).nonzero().flatten().tolist() == list(range(0, 30, 3))


def test_an_instance_s_wrong_label_is_mostly_the_class_that_it_looks_like():
    labels = torch.arange(900) % 3
    noisy = instance(labels, 1 / 3, 3, generator(0), about(labels, 3))
    moved = (noisy - labels)[::3] % 3
    assert float((moved == 1).double().mean()) > 0.9  # ½ if any other class were as likely


def test_the_weak_model_is_trained_once_for_all_clients_and_on_few_samples():
    asked = []
    labels = torch.arange(20) % 2
    outside = Outside("x", 2, lambda n: (asked.append(n), (torch.eye(2)[labels], labels))[1])
    for m in range(3):
        instance(labels, 0.5, 2, generator(m), About("x", torch.eye(2)[labels], outside))
    assert asked == [500]


def test_too_few_samples_outside_of_the_task_are_refused():
    outside = Outside("x", 3, lambda n: (torch.zeros(14, 2), torch.zeros(14, dtype=torch.long)))
    with pytest.raises(DataError, match=r"needs 15 samples of x that no client has .* 14 are left"):
        instance(torch.arange(3), 0.5, 3, generator(0), About("x", torch.zeros(3, 2), outside))


@pytest.mark.parametrize(("column", "shift"), [("", 1), ("first", 1), ("second", 2)])
def test_human_labels_are_those_of_the_column(column, shift):
    labels = torch.arange(10)
    noisy = human(labels, 0.0, 10, generator(0), about(labels, 10, column))
    assert torch.equal(noisy, (labels + shift) % 10)


def test_a_column_that_is_not_there_is_refused_with_those_that_are():
    labels = torch.arange(3)
    with pytest.raises(DataError, match=r"no labels 'third'; .* one of first, second"):
        human(labels, 0.0, 10, generator(0), about(labels, 10, "third"))


def test_mixed_sites_are_each_of_one_kind_and_of_different_ones():
    labels, drawn = torch.arange(200) % 10, set()
    for m in range(12):
        found = mixed(labels, 0.3, 10, generator(m), about(labels))
        used = generator(m)
        kind = KINDS[int(torch.randint(3, (), generator=used))]
        assert torch.equal(found, kind(labels, 0.3, 10, used, about(labels)))
        drawn.add(kind)
    assert drawn == set(KINDS)
