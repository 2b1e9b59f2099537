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
is a constant with a spread, chosen on simulated noise (``docs/audit.md``), and the spread widens
the intervals. The weights are learned on the validation set, and the head start may have trained
on half of it: the fitted temperature is too low, and is raised by a constant share. A model that
has learned little cannot have memorised labels, so all of this shrinks with the fourth power of
its accuracy above chance on the validation set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from fedsift.errors import InputError

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

TINY = 1e-30
RATES = (np.arange(200) + 0.5) / 200
QUANTILES = (np.arange(9) + 0.5) / 9
SPREAD_NODES = np.array([-1.6, -0.8, 0.0, 0.8, 1.6])
TWO_SIDED_95 = 1.96
FAMILIAR = 0.3  # how much too low a temperature is that was fitted on samples known to the model


@dataclass(frozen=True)
class Calibration:
    """What the server sends to the sites once the model is trained.

    ``spread`` is the standard deviation of δ between datasets and sites. ``misfit`` widens the
    intervals: T comes from few samples, and no model is exactly calibrated.
    """

    temperature: float = 1.0
    optimism: float = 1.5
    spread: float = 0.75
    misfit: float = 1.5

    @classmethod
    def fit(cls, probabilities: Array, labels: Ints) -> Calibration:
        """Fit the temperature and the skill of a model on the clean samples."""
        classes = probabilities.shape[1]
        accuracy = float((probabilities.argmax(axis=1) == labels).mean())
        above_chance = (classes * accuracy - 1) / max(classes - 1, 1)
        skill = max(0.0, above_chance) ** 4
        temperature = fit_temperature(probabilities, labels) * (1 + FAMILIAR * skill)
        return cls(temperature, skill * cls.optimism, skill * cls.spread)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any] | None) -> Calibration:
        """Read it from ``summary.json``; a run without one gets the defaults."""
        known = {k: values[k] for k in cls.__annotations__ if k in values} if values else {}
        if not all(isinstance(v, int | float) and np.isfinite(v) for v in known.values()):
            raise InputError(
                "the calibration of this run has a value that is not a number; make the run again"
            )
        return cls(**known)


def fit_temperature(probabilities: Array, labels: Ints) -> float:
    """Return the T that makes softmax(log p / T) most likely on clean held-out samples.

    The prior is log T ~ N(0, 1): a model without an error on few samples is not infinitely certain.
    """
    logs = np.log(np.maximum(probabilities, TINY))
    at = np.arange(len(labels))

    def loss(log_temperature: float) -> float:
        likely = log_softmax(logs / np.exp(log_temperature), axis=1)[at, labels].sum()
        return float(0.5 * log_temperature**2 - likely)

    return float(np.exp(minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded").x))


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of a site's labels.

    ``nodes`` has a row per value of (ρ, δ), all equally probable up to ``masses``, with
    P(right) of every sample; ``classes`` is P(true class) of every sample.
    """

    nodes: Array
    masses: Array
    classes: Array
    misfit: float = 1.0

    @property
    def right(self) -> Array:
        """P(right) of every sample."""
        return self.masses @ self.nodes

    def wrong_share(
        self, members: npt.NDArray[np.bool_] | None = None
    ) -> tuple[float, float, float]:
        """Return the estimated share of wrong labels and its 95 % interval."""
        nodes = self.nodes if members is None else self.nodes[:, members]
        count = nodes.shape[1]
        if not count:
            return 0.0, 0.0, 1.0
        shares = 1 - nodes.mean(axis=1)
        mean = float(self.masses @ shares)
        drawn = self.masses @ (nodes * (1 - nodes)).sum(axis=1) / count**2
        between = self.masses @ (shares - mean) ** 2
        half = TWO_SIDED_95 * self.misfit * float(np.sqrt(drawn + between))
        return mean, max(0.0, mean - half), min(1.0, mean + half)


def posterior(probabilities: Array, labels: Ints, calibration: Calibration) -> Posterior:
    """Return the posterior of a site's labels."""
    count, classes = probabilities.shape
    logs = np.log(np.maximum(probabilities, TINY)) / calibration.temperature
    tempered = softmax(logs, axis=1)
    given = tempered[np.arange(count), labels]
    # log P(ℓ | wrong) / P(ℓ | right), before the optimism is taken off
    evidence = np.log1p(-np.minimum(given, 1 - 1e-12)) - np.log(np.maximum(given, TINY))
    evidence -= np.log(max(classes - 1, 1))
    nodes, masses = [], []
    for node in SPREAD_NODES:
        ratio = np.exp(np.minimum(evidence + calibration.optimism + calibration.spread * node, 300))
        for rate in _likely_rates(ratio):
            nodes.append((1 - rate) / ((1 - rate) + rate * ratio))
            masses.append(np.exp(-0.5 * node**2))
    stacked, weights = np.stack(nodes), np.array(masses) / np.sum(masses)
    right = weights @ stacked
    tempered[np.arange(count), labels] = 0.0
    others = tempered / np.maximum(tempered.sum(axis=1, keepdims=True), TINY)
    classes_given = (1 - right)[:, None] * others
    classes_given[np.arange(count), labels] = right
    return Posterior(stacked, weights, classes_given, calibration.misfit)


def _likely_rates(ratio: Array) -> Array:
    """Return quantiles of ρ given the site's evidence, under a uniform prior."""
    log_likelihood = np.log1p(RATES[:, None] * (ratio - 1)).sum(axis=1)
    mass = np.exp(log_likelihood - log_likelihood.max())
    return np.interp(QUANTILES, np.cumsum(mass) / mass.sum(), RATES)
