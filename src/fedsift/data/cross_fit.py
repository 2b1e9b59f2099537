"""Labels that look wrong to models which have not seen them.

L2-regularised softmax regression, 10 folds, gives probabilities p of samples not trained on; few
samples are cut into folds several times, since what a model says then depends on the cut. The
temperature T and the share ρ of wrong labels are those of the largest likelihood,

    Π_i [(1 − ρ) p_i(T) + ρ (1 − p_i(T)) / (C − 1)] N(log T; 0, 1)     p(T) = softmax(log p / T)

p_i being that of sample i's label, and a label is wrong with the probability of Bayes' rule. Two
unknowns, because a weak model is often surprised (T is high), a good one by wrong labels (ρ is).

It needs neither the user's model nor its settings, and takes a second.
"""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from fedsift.randomness import generator

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FOLDS, REPEATS, REPEATED = 10, 3, 200  # times that up to 200 samples are cut into folds
SQUARED_NORM = 10.0  # mean of ‖input‖² for the regression: how strongly its L2 counts
TINY = 1e-13
LOG_TEMPERATURES = np.linspace(-3.0, 3.0, 61)
RATES = np.linspace(0.0, 0.5, 101)


def cross_fit(inputs: Array, labels: Ints, classes: int, seed: int) -> Array:
    """Return log-probabilities of every sample by models that were not trained on it."""
    numbers, total = condense(inputs), np.zeros((len(labels), classes))
    repeats = REPEATS if len(labels) <= REPEATED else 1
    for repeat in range(repeats):
        source = generator(seed, "clean set folds", repeat)
        order = torch.randperm(len(labels), generator=source).numpy()
        for fold in np.array_split(order, FOLDS):
            rest = np.setdiff1d(order, fold)
            seen = np.unique(labels[rest])
            if len(seen) < 2:
                total[np.ix_(fold, seen)] += 1.0
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # close is close enough
                model = LogisticRegression(max_iter=300).fit(numbers[rest], labels[rest])
            total[np.ix_(fold, seen)] += model.predict_proba(numbers[fold])
    return np.asarray(np.log(np.maximum(total / repeats, TINY)))


def condense(inputs: Array) -> Array:
    """Return the inputs, centred and scaled, in the coordinates of their own span.

    Columns of a table are standardised: they may have any unit. The regression depends on inner
    products only, so the n coordinates in the span of n samples say all.
    """
    centred = inputs - inputs.mean(axis=0)
    deviation = centred.std(axis=0)
    varies = deviation > 1e-9 * np.abs(inputs).max(axis=0)  # else it is rounding
    centred = np.where(varies, centred / np.where(varies, deviation, 1.0), 0.0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    numbers = left * singular
    scale = np.sqrt((numbers**2).sum(axis=1).mean())
    return np.asarray(numbers * (np.sqrt(SQUARED_NORM) / scale if scale else 1.0))


def wrong_probabilities(log_probabilities: Array, labels: Ints) -> tuple[Array, float]:
    """Return the probability that each label is wrong, and the share ρ of wrong labels."""
    others = max(log_probabilities.shape[1] - 1, 1)
    at, best = np.arange(len(labels)), -np.inf
    wrong, rate = np.zeros(len(labels)), 0.0
    for log_t in LOG_TEMPERATURES:
        own = np.exp(log_softmax(log_probabilities / np.exp(log_t), axis=1)[at, labels])
        parts = RATES[:, None] * (1 - own) / others
        sums = parts + (1 - RATES[:, None]) * own
        likely = np.log(np.maximum(sums, TINY**2)).sum(axis=1) - 0.5 * log_t**2
        r = int(likely.argmax())
        if likely[r] > best:
            best, rate, wrong = float(likely[r]), float(RATES[r]), parts[r] / sums[r]
    return wrong, rate
