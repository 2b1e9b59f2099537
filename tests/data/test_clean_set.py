"""What is said of a clean set, against sets whose faults are known."""

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression

from fedsift.data.clean_set import check_clean_set
from fedsift.data.cross_fit import SQUARED_NORM, condense, wrong_probabilities

NAMES = ("a", "b", "c")


def gaussians(counts, seed=0):
    """Return well separated classes, this many samples of each."""
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(counts)), counts)
    inputs = 8 * np.eye(len(counts))[labels] + random.normal(size=(len(labels), len(counts)))
    return torch.from_numpy(inputs), torch.from_numpy(labels)


def test_of_a_good_set_nothing_is_said():
    found = check_clean_set(*gaussians((20, 20, 20)), NAMES, site_counts=(9, 9, 9))
    assert (found.samples, found.missing, found.rare, found.notes) == (60, (), (), ())


@pytest.mark.parametrize(
    ("counts", "at_sites", "notes"),
    [
        (
            (30, 30, 0),
            (9, 9, 40),
            (
                "the clean set has no sample of class 'c', which 40 labels at the sites have; "
                "labels of it cannot be judged: add clean samples of it",
            ),
        ),
        (
            (30, 30, 0),
            None,
            (
                "the clean set has no sample of class 'c'; labels of it cannot be judged: add "
                "clean samples of it",
            ),
        ),
        (
            (30, 30, 4),
            None,
            (
                "the clean set has fewer than 5 samples of 'c' (4); what is found among their "
                "labels is unsure: add clean samples of them",
            ),
        ),
        (
            (4, 4, 4),
            None,
            (
                "the clean set has 12 samples for 3 classes; what is found with fewer than 5 per "
                "class is unsure: add clean samples",
            ),
        ),
        ((30, 30, 0), (9, 9, 0), ()),  # no site has the class either
    ],
)
def test_what_is_lacking_is_said(counts, at_sites, notes):
    assert check_clean_set(*gaussians(counts), NAMES, at_sites).notes == notes


def test_missing_and_rare_classes_are_named():
    found = check_clean_set(*gaussians((30, 3, 0)), NAMES)
    assert (found.missing, found.rare) == (("c",), ("b",))


def test_many_missing_classes_are_one_sentence():
    inputs, labels = gaussians((40, 40))
    (note, *_) = check_clean_set(inputs, labels, [f"k{n}" for n in range(14)]).notes
    assert "no sample of 12 of the 14 classes ('k2', 'k3'" in note
    assert "'k11', ...)" in note


def test_wrong_labels_are_named_by_position():
    inputs, labels = gaussians((20, 20, 20))
    labels[[4, 33, 50]] = torch.tensor([1, 2, 0])
    found = check_clean_set(inputs, labels, NAMES)
    assert sorted(found.suspects) == [4, 33, 50]
    (note,) = found.notes
    assert note.startswith("3 of the 60 clean samples look wrong: positions ")
    assert note.endswith("; check them before training")


@pytest.mark.parametrize("load", [load_digits, load_breast_cancer])
@pytest.mark.parametrize("wrong", [0, 20])
def test_real_data_with_and_without_wrong_labels(load, wrong):
    """A tenth of 200 labels changed, with a seed that no constant was chosen on."""
    inputs, labels = (torch.from_numpy(part) for part in load(return_X_y=True))
    random, classes = np.random.default_rng(200), int(labels.max()) + 1
    at = torch.from_numpy(random.permutation(len(labels))[:200])
    given, changed = labels[at].clone(), random.permutation(200)[:wrong]
    shift = torch.from_numpy(random.integers(1, classes, wrong))
    given[changed] = (given[changed] + shift) % classes
    found = check_clean_set(inputs[at], given, [str(c) for c in range(classes)])
    hits = len(set(found.suspects) & set(changed.tolist()))
    assert hits >= 0.5 * wrong
    assert len(found.suspects) - hits <= 0.5 * wrong  # of a set without wrong labels: none


def test_the_coordinates_of_the_span_change_no_prediction():
    random = np.random.default_rng(0)
    inputs, labels = random.normal(size=(30, 200)), random.integers(0, 3, 30)
    whole = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
    whole *= np.sqrt(SQUARED_NORM / (whole**2).sum(axis=1).mean())
    few = condense(inputs)
    assert few.shape == (30, 30)
    said = [
        LogisticRegression(tol=1e-8, max_iter=1000).fit(x[:20], labels[:20]).predict_proba(x[20:])
        for x in (few, whole)
    ]
    np.testing.assert_allclose(*said, atol=1e-5)


def test_a_column_that_is_always_the_same_says_nothing():
    inputs = np.full((30, 2), 0.1)
    inputs[:, 1] = np.arange(30)
    np.testing.assert_allclose(condense(inputs)[:, 1], 0.0, atol=1e-12)


@pytest.mark.parametrize("rate", [0.0, 0.2])
def test_the_share_of_wrong_labels_is_found(rate):
    """Labels drawn from the model itself, then changed; the logarithms are of half the scale."""
    random = np.random.default_rng(1)
    logits = 8 * random.random((4000, 4))
    p = softmax(logits, axis=1)
    labels = (p.cumsum(axis=1) < random.random((4000, 1))).sum(axis=1)
    wrong = random.random(4000) < rate
    labels = (labels + wrong * random.integers(1, 4, 4000)) % 4
    probability, found = wrong_probabilities(np.log(p) / 2, labels)
    assert found == pytest.approx(rate, abs=0.03)
    assert probability[wrong].sum() >= 2 * rate * probability.sum()


def test_numbers_of_words_are_not_judged():
    inputs = torch.randint(0, 9, (40, 6))
    labels = torch.arange(40) % 3
    assert check_clean_set(inputs, labels, NAMES).suspects == ()


def test_a_set_of_one_class_is_not_judged():
    found = check_clean_set(*gaussians((40,)), NAMES[:1])
    assert found.suspects == ()


def test_it_is_json():
    inputs, labels = gaussians((20, 20, 0))
    found = check_clean_set(inputs, labels, NAMES).to_json()
    assert found["missing"] == ["c"]
    assert found["samples"] == 40
