"""Shamir's secret sharing: a polynomial of degree t - 1 through (0, secret), modulo a prime.

The prime is 2^256 + 297, the least above 2^256, so that every secret of 32 bytes fits. A share is
the value at a member's place 1, 2, ...; fewer than t of them say nothing about the secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fedsift.errors import InputError

PRIME = 2**256 + 297
SECRET, SHARE = 32, 33  # bytes


def needed(members: int) -> int:
    """Return t, how many members must take part: more than two thirds of them."""
    return 2 * members // 3 + 1


def split(
    secret: bytes, threshold: int, members: int, draw: Callable[[int], bytes]
) -> tuple[bytes, ...]:
    """Return one share per member; ``draw`` gives that many random bytes."""
    if not 1 <= threshold <= members or len(secret) != SECRET:
        raise InputError(
            f"a secret of {len(secret)} bytes cannot be split for {threshold} of {members} members"
        )
    # 16 bytes more than the prime has, so that a coefficient is uniform within 2^-128.
    coefficients = [int.from_bytes(draw(SHARE + 16), "big") % PRIME for _ in range(threshold - 1)]
    polynomial = [int.from_bytes(secret, "big"), *coefficients]
    return tuple(
        _value(polynomial, place).to_bytes(SHARE, "big") for place in range(1, members + 1)
    )


def combine(shares: Mapping[int, bytes]) -> bytes:
    """Return the secret of shares by their places, numbered from 1; t of them are enough."""
    total = 0
    for place, share in shares.items():
        above, below = 1, 1
        for other in shares:
            if other != place:
                above = above * other % PRIME
                below = below * (other - place) % PRIME
        total += int.from_bytes(share, "big") * above * pow(below, -1, PRIME)
    total %= PRIME
    if total >= 2 ** (8 * SECRET):
        raise InputError("the shares of a secret do not belong together; start the round again")
    return total.to_bytes(SECRET, "big")


def _value(polynomial: list[int], place: int) -> int:
    found = 0
    for coefficient in reversed(polynomial):
        found = (found * place + coefficient) % PRIME
    return found
