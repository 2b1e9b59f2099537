"""How probable is it that a label is right? Bayes' rule on the trained model's probabilities.

A label ℓ of a site is right with probability 1 − ρ; if wrong, all other classes are equally likely:

    P(right | x, ℓ) = (1 − ρ) p_ℓ / ((1 − ρ) p_ℓ + ρ (1 − p_ℓ) / (C − 1))

| symbol | in code       | meaning                                                               |
|--------|---------------|-----------------------------------------------------------------------|
| p      |               | the model's probabilities at a temperature fitted on the server's     |
|        |               | clean validation set                                                  |
| ρ      | `rates`       | the site's share of wrong labels, integrated over its posterior       |
| δ      | `optimism`    | what the model has learned of a label from the label itself, in nats: |
|        |               | it saw ℓ in training, so log p_ℓ/(1 − p_ℓ) is too high by about δ     |
| C      | `classes`     | number of classes                                                     |

No true label is used. δ cannot be measured without the truth: for a model that is always right it
is a constant with a spread, chosen on simulated noise (``docs/guide/audit.md``), and the spread
widens the intervals. The weights are learned on the validation set, and the head start may have
trained on half of it: the fitted temperature is too low, and is raised by a constant share. A model
that has learned little cannot have memorised labels, so all of this shrinks with the fourth power
of its accuracy above chance on the validation set.

A class of which the clean set has no sample cannot be judged: weights that are learned on that set
turn against every label of it. Such labels are never flagged and say nothing
of ρ; an interval that rests on them covers all that they may be:

    [q low, q high + 1 − q]       q: share of the labels that are judged; low, high: of these alone

Nothing is surer than the clean set allows: by Laplace's rule n clean samples without an error
leave a probability of 1/(n + 2) that the next one is, so scores are shown within these bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from fedsift.data.clean_set import ENOUGH
from fedsift.errors import InputError
from fedsift.problem.temperature import TINY, Array, Ints, fit_temperature

Mask = npt.NDArray[np.bool_]

RATES = (np.arange(200) + 0.5) / 200
QUANTILES = (np.arange(9) + 0.5) / 9
SPREAD_NODES = np.array([-1.6, -0.8, 0.0, 0.8, 1.6])
TWO_SIDED_95 = 1.96
THRESHOLD = 0.5  # a label below it is more probably wrong than right
FAMILIAR = 0.3  # how much too low a temperature is that was fitted on samples known to the model


@dataclass(frozen=True)
class Calibration:
    """What the server sends to the sites once the model is trained.

    ``spread`` is the standard deviation of δ between datasets and sites. ``misfit`` widens the
    intervals: T comes from few samples, and no model is exactly calibrated. ``samples`` is the
    number of clean samples (0: not known), ``judged`` says of each class whether any is of it
    (None: all are judged). ``rate_error`` is the standard error of the share of wrong labels that δ
    rests on: no interval is narrower, even where ρ hardly depends on δ.
    """

    temperature: float = 1.0
    optimism: float = 1.5
    spread: float = 0.75
    misfit: float = 1.5
    samples: int = 0
    judged: tuple[bool, ...] | None = None
    rate_error: float = 0.0

    @classmethod
    def fit(cls, probabilities: Array, labels: Ints) -> Calibration:
        """Fit the temperature and the skill of a model on the clean samples."""
        classes = probabilities.shape[1]
        accuracy = float((probabilities.argmax(axis=1) == labels).mean())
        above_chance = (classes * accuracy - 1) / max(classes - 1, 1)
        skill = max(0.0, above_chance) ** 4
        temperature = fit_temperature(probabilities, labels) * (1 + FAMILIAR * skill)
        judged = tuple((np.bincount(labels, minlength=classes) >= ENOUGH).tolist())
        constants = skill * cls.optimism, skill * cls.spread, cls.misfit
        return cls(temperature, *constants, len(labels), judged)

    @classmethod
    def measured(
        cls,
        labels: Ints,
        classes: int,
        *,
        temperature: float,
        optimism: float,
        spread: float,
        rate_error: float,
    ) -> Calibration:
        """Return that of a method that has measured T, δ and its spread by itself."""
        judged = tuple((np.bincount(labels, minlength=classes) >= ENOUGH).tolist())
        return cls(temperature, optimism, spread, cls.misfit, len(labels), judged, rate_error)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any] | None) -> Calibration:
        """Read it from ``summary.json``; a run without one gets the defaults."""
        known = {k: values[k] for k in cls.__annotations__ if k in values} if values else {}
        judged = known.pop("judged", None)
        if not all(isinstance(v, int | float) and np.isfinite(v) for v in known.values()):
            raise InputError(
                "the calibration of this run has a value that is not a number; make the run again"
            )
        if judged is None:
            return cls(**known)
        if not (isinstance(judged, list | tuple) and all(isinstance(j, bool) for j in judged)):
            raise InputError(
                "the calibration of this run has classes of which it does not say whether they "
                "are judged; make the run again"
            )
        return cls(**known, judged=tuple(judged))

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {**asdict(self), "judged": None if self.judged is None else list(self.judged)}

    def known(self, probabilities: Array) -> Array:
        """Clip probabilities to what this many clean samples can tell."""
        return within(probabilities, self.samples)

    def posterior(self, probabilities: Array, labels: Ints) -> Posterior:
        """Return the posterior of a site's labels."""
        return posterior(probabilities, labels, self)


def within(probabilities: Array, samples: int) -> Array:
    """Clip probabilities to what this many clean samples can tell (0: not known how many)."""
    if not samples:
        return probabilities
    return np.clip(probabilities, 1 / (samples + 2), 1 - 1 / (samples + 2))


class Knows(Protocol):
    """A calibration as far as a table needs it."""

    def known(self, probabilities: Array) -> Array:
        """Clip probabilities to what the clean samples can tell."""
        ...


class Belief(Protocol):
    """What an audit shows of a site's labels."""

    @property
    def classes(self) -> Array:
        """P(true class) of every sample."""
        ...

    @property
    def judged(self) -> Mask:
        """Whether a label is of a class that can be judged."""
        ...

    @property
    def calibration(self) -> Knows:
        """What it was made with."""
        ...

    @property
    def flagged(self) -> Mask:
        """Whether a label is more probably wrong than right."""
        ...

    @property
    def order(self) -> Array:
        """What labels are ordered by."""
        ...

    @property
    def basis(self) -> str:
        """What the judgement rests on, in words."""
        ...

    def wrong_share(self, members: Mask | None = None) -> tuple[float, float, float]:
        """Return the estimated share of wrong labels and its 95 % interval."""
        ...


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of a site's labels.

    ``ratios`` has P(ℓ | wrong) / P(ℓ | right) of every sample, a row per value of δ; ``rates`` has
    values of ρ for each of these rows. Pairs (δ, ρ) are the nodes, equally probable up to
    ``masses``. ``right`` is P(right) and ``classes`` P(true class) of every sample, ``judged``
    whether its label is of a class that can be judged.
    """

    ratios: Array
    rates: Array
    masses: Array
    right: Array
    classes: Array
    judged: Mask
    calibration: Calibration

    @property
    def flagged(self) -> Mask:
        """Whether a label is more probably wrong than right."""
        return self.judged & (self.right < THRESHOLD)

    @property
    def basis(self) -> str:
        """What the judgement rests on, in words; nothing to say here."""
        return ""

    @property
    def order(self) -> Array:
        """What labels are ordered by: P(right), at least ½ where nothing speaks against a label."""
        right = self.right
        return np.where(self.judged, right, np.maximum(right, THRESHOLD))

    def wrong_share(self, members: Mask | None = None) -> tuple[float, float, float]:
        """Return the estimated share of wrong labels and its 95 % interval."""
        return share_of_all(self.judged, self.right, members, self._share)

    def _share(self, chosen: Mask) -> tuple[float, float, float]:
        rows = nodes_of(self.ratios[:, chosen], self.rates)
        sums = np.array([(1 - row.mean(), (row * (1 - row)).sum()) for row in rows])
        shares, count = sums[:, 0], int(chosen.sum())
        mean = float(self.masses @ shares)
        known = self.calibration
        drawn = known.misfit**2 * float(self.masses @ sums[:, 1]) / count**2
        between = known.misfit**2 * float(self.masses @ (shares - mean) ** 2)
        half = TWO_SIDED_95 * (drawn + max(between, known.rate_error**2)) ** 0.5
        return mean, max(0.0, mean - half), min(1.0, mean + half)


def share_of_all(
    judged: Mask,
    right: Array,
    members: Mask | None,
    share: Callable[[Mask], tuple[float, float, float]],
) -> tuple[float, float, float]:
    """Return the share of wrong labels among ``members`` from that of the judged ones.

    The estimate is that of the judged labels; the others may all be right or all be wrong.
    """
    every = np.ones_like(judged) if members is None else members
    chosen = every & judged
    if not every.any():
        return 0.0, 0.0, 1.0
    if not chosen.any():
        return float(1 - right[every].mean()), 0.0, 1.0
    estimate, low, high = share(chosen)
    part = float(chosen.sum() / every.sum())
    return estimate, part * max(0.0, low), part * min(1.0, high) + (1 - part)


def posterior(probabilities: Array, labels: Ints, calibration: Calibration) -> Posterior:
    """Return the posterior of a site's labels."""
    count, classes = probabilities.shape
    judged = _judged(labels, classes, calibration)
    logs = np.log(np.maximum(probabilities, TINY)) / calibration.temperature
    tempered = softmax(logs, axis=1)
    given = tempered[np.arange(count), labels]
    # log P(ℓ | wrong) / P(ℓ | right), before the optimism is taken off
    evidence = np.log1p(-np.minimum(given, 1 - 1e-12)) - np.log(np.maximum(given, TINY))
    evidence -= np.log(max(classes - 1, 1))
    ratios = np.empty((len(SPREAD_NODES), count))
    for row, node in zip(ratios, SPREAD_NODES, strict=True):
        shift = calibration.optimism + calibration.spread * node
        row[:] = np.exp(np.minimum(evidence + shift, 300))
        row[~judged] = 1.0  # no evidence: as probable as any label of the site
    rates = np.array([_likely_rates(row[judged]) for row in ratios])
    masses = np.repeat(np.exp(-0.5 * SPREAD_NODES**2), len(QUANTILES))
    masses /= masses.sum()
    right = np.zeros(count)
    for mass, row in zip(masses, nodes_of(ratios, rates), strict=True):
        right += mass * row
    tempered[np.arange(count), labels] = 0.0
    others = tempered / np.maximum(tempered.sum(axis=1, keepdims=True), TINY)
    classes_given = (1 - right)[:, None] * others
    classes_given[np.arange(count), labels] = right
    return Posterior(ratios, rates, masses, right, classes_given, judged, calibration)


def nodes_of(ratios: Array, rates: Array) -> Iterator[Array]:
    """Return P(right) of every sample at each node, one at a time: together they would be large."""
    for ratio, likely in zip(ratios, rates, strict=True):
        for rate in likely:
            yield (1 - rate) / ((1 - rate) + rate * ratio)


def _judged(labels: Ints, classes: int, calibration: Calibration) -> Mask:
    """Return of every label whether it can be judged."""
    if calibration.judged is None:
        return np.ones(len(labels), dtype=bool)
    if len(calibration.judged) != classes:
        raise InputError(
            f"the calibration of this run is for {len(calibration.judged)} classes but its model "
            f"has {classes}; make the run again"
        )
    return np.array(calibration.judged)[labels]


def _likely_rates(ratio: Array) -> Array:
    """Return quantiles of ρ given the site's evidence, under a uniform prior."""
    log_likelihood = np.array([np.log1p(rate * (ratio - 1)).sum() for rate in RATES])
    mass = np.exp(log_likelihood - log_likelihood.max())
    return np.interp(QUANTILES, np.cumsum(mass) / mass.sum(), RATES)
