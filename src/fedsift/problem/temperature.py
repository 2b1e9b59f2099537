"""A temperature for logits: how sure a model may be, by samples that it was not trained on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

TINY = 1e-30


def fit_temperature(probabilities: Array, labels: Ints, spread: float = 1.0) -> float:
    """Return the T that makes softmax(log p / T) most likely on clean held-out samples.

    The prior is log T ~ N(0, spread²): a model without an error on few samples is not infinitely
    certain.
    """
    logs = np.log(np.maximum(probabilities, TINY))
    at = np.arange(len(labels))

    def loss(log_temperature: float) -> float:
        likely = log_softmax(logs / np.exp(log_temperature), axis=1)[at, labels].sum()
        return float(0.5 * (log_temperature / spread) ** 2 - likely)

    return float(np.exp(minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded").x))
