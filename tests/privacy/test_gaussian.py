"""Normal numbers from a key: their distribution, and that other keys give others."""

import numpy as np
import pytest
from scipy.stats import kstest

from fedsift.privacy import gaussian, normal

N = 40_000
LEAST = 1e-4  # of a p-value; the keys are fixed


def is_normal(sample):
    """Tell whether a sample is N(0, 1): Kolmogorov and Smirnov, and no pair correlates."""
    correlation = abs(np.corrcoef(sample[:-1], sample[1:])[0, 1])
    return kstest(sample, "norm").pvalue > LEAST and correlation < 5 / len(sample) ** 0.5


@pytest.mark.parametrize("key", [b"a", b"b", b"c"])
def test_the_numbers_are_normal(key):
    sample = normal(key, N)
    assert is_normal(sample)
    assert abs(sample).max() > 3.5


@pytest.mark.parametrize(
    "wrong",
    [
        lambda sample: 1.06 * sample,
        lambda sample: sample + 0.03,
        lambda sample: np.repeat(sample[::2], 2),
        lambda sample: np.clip(sample, -1.5, 1.5),
    ],
)
def test_the_check_rejects_what_is_not(wrong):
    assert not is_normal(wrong(normal(b"a", N)))


def test_a_key_gives_its_own_numbers_and_the_same_again():
    assert np.array_equal(normal(b"a", 1001), normal(b"a", 1001))
    assert np.array_equal(normal(b"a", 1001)[:1000], normal(b"a", 1000))
    assert abs(np.corrcoef(normal(b"a", N), normal(b"b", N))[0, 1]) < 5 / N**0.5
    assert normal(b"a", 0).shape == (0,)


def test_blocks_differ(monkeypatch):
    monkeypatch.setattr(gaussian, "BLOCK", 50)
    sample = normal(b"a", 350)
    assert len(np.unique(sample)) == 350
