"""Shamir's shares against interpolation over the rationals, and what fewer than t of them say."""

import itertools
import os
import random
from fractions import Fraction

import pytest

from fedsift.errors import InputError
from fedsift.secure import shamir


def _probably_prime(n):
    """Miller-Rabin with fixed bases."""
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        x = pow(base, odd, n)
        if x in (1, n - 1):
            continue
        if not any((x := x * x % n) == n - 1 for _ in range(twos - 1)):
            return False
    return True


def test_the_modulus_is_prime():
    assert _probably_prime(shamir.PRIME)
    assert not _probably_prime(shamir.PRIME - 2)


@pytest.mark.parametrize(("threshold", "members"), [(1, 1), (2, 3), (3, 5), (7, 10)])
def test_any_t_shares_give_the_secret_back(threshold, members):
    secret = os.urandom(32)
    shares = dict(enumerate(shamir.split(secret, threshold, members, os.urandom), 1))
    places = list(itertools.combinations(shares, threshold))[:40]
    assert all(shamir.combine({p: shares[p] for p in chosen}) == secret for chosen in places)
    assert shamir.combine(shares) == secret


def test_shares_lie_on_a_polynomial_through_the_secret():
    """With small coefficients nothing wraps, so rational interpolation must find the secret."""
    source = random.Random(3)
    secret = (12345).to_bytes(32, "big")
    small = lambda n: source.randrange(1000).to_bytes(n, "big")  # noqa: E731
    shares = shamir.split(secret, 3, 5, small)
    found = Fraction(0)
    for i in (1, 3, 5):
        weight = Fraction(1)
        for j in (1, 3, 5):
            if j != i:
                weight *= Fraction(-j, i - j)
        found += int.from_bytes(shares[i - 1], "big") * weight
    assert found == 12345


def test_fewer_than_t_shares_fit_every_secret():
    """t - 1 shares and any secret lie on one polynomial: they say nothing."""
    shares = shamir.split(bytes(32), 3, 5, os.urandom)
    known = {1: shares[0], 2: shares[1]}
    other = os.urandom(32)
    third = _through(known, other)
    assert shamir.combine({**known, 3: third}) == other


def _through(known, secret):
    """Return the third share of a polynomial through two shares and a secret."""
    points = {
        0: int.from_bytes(secret, "big"),
        **{p: int.from_bytes(s, "big") for p, s in known.items()},
    }
    total = 0
    for i, value in points.items():
        above, below = 1, 1
        for j in points:
            if j != i:
                above, below = above * (3 - j), below * (i - j)
        total += value * above * pow(below, -1, shamir.PRIME)
    return (total % shamir.PRIME).to_bytes(shamir.SHARE, "big")


def test_what_cannot_be_split_is_refused():
    with pytest.raises(InputError, match="cannot be split"):
        shamir.split(bytes(32), 4, 3, os.urandom)
    with pytest.raises(InputError, match="cannot be split"):
        shamir.split(bytes(31), 2, 3, os.urandom)


def test_needed_is_more_than_two_thirds():
    assert [shamir.needed(n) for n in (3, 4, 9, 10)] == [3, 3, 7, 7]
