"""What noised releases cost: the exact ε of a composition of Gaussian mechanisms.

A release of a vector that one site changes by at most 1, with noise N(0, z²), is 1/z-GDP; releases
compose, also where a request depends on earlier replies (Dong, Roth and Su 2022):

    μ² = Σ_releases 1 / z²
    δ(ε) = Φ(−ε / μ + μ / 2) − e^ε Φ(−ε / μ − μ / 2)           (Balle and Wang 2018, theorem 8)

Both are equalities, so there is nothing to gain by Rényi or numerical accountants. No amplification
by sampling is claimed: the server draws the cohort, so it knows who is in it.

| symbol | meaning                                                              |
|--------|----------------------------------------------------------------------|
| z      | standard deviation of the noise over what a site changes: multiplier |
| μ      | how far apart a run with a site and one without it are               |
| ε, δ   | the guarantee                                                        |
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scipy.special import log_ndtr

from fedsift.errors import RunError

MOST = 1e6  # beyond it an ε says nothing
EXACT = 1e-9  # relative


def delta_of(epsilon: float, mu: float) -> float:
    """Return the least δ for which μ-GDP gives (ε, δ)."""
    near, far = log_ndtr(-epsilon / mu + mu / 2), log_ndtr(-epsilon / mu - mu / 2)
    return float(math.exp(near) * -math.expm1(min(0.0, epsilon + far - near)))


def epsilon_of(mu: float, delta: float) -> float:
    """Return the least ε for which μ-GDP gives (ε, δ); infinite above ``MOST``."""
    if mu <= 0 or delta_of(0.0, mu) <= delta:
        return 0.0
    if delta_of(MOST, mu) > delta:
        return math.inf
    return _least(lambda epsilon: delta_of(epsilon, mu) <= delta, MOST)


def multiplier_for(epsilon: float, delta: float, releases: int) -> float:
    """Return the least z with which this many releases give (ε, δ)."""
    least = _least(lambda z: delta_of(epsilon, math.sqrt(releases) / z) <= delta, 1e9)
    return max(least, EXACT)


def _least(holds: Callable[[float], bool], high: float) -> float:
    """Return the least number in [0, high] that holds, by bisection; rounded up."""
    low = 0.0
    while high - low > EXACT * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@dataclass
class Account:
    """The releases of every client in a run, each with the multiplier z.

    ``most``: how many of one client are allowed; 0: any. ``keep`` writes the counts down before a
    request goes out, so that no crash loses one.
    """

    multiplier: float
    delta: float
    most: int = 0
    releases: Counter[int] = field(default_factory=Counter)
    keep: Callable[[Counter[int]], None] = lambda _: None

    def spend(self, clients: Sequence[int]) -> None:
        """Count one release of each of these clients, before they are asked."""
        if self.most and any(self.releases[client] >= self.most for client in clients):
            raise RunError(
                f"dp_epsilon is spent after {self.most} requests, which were planned for; a round "
                "that is done again costs as much as any: give inner_lr a number, or resume with "
                "dp_noise in place of dp_epsilon"
            )
        self.releases.update(clients)
        self.keep(self.releases)

    def epsilon(self, factor: float = 1.0) -> float:
        """Return ε of the client that was asked most; one may change a reply ``factor`` times C."""
        most = max(self.releases.values(), default=0)
        return epsilon_of(factor * math.sqrt(most) / self.multiplier, self.delta)
