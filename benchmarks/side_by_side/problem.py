"""The problem that every library solves, and its solution by NumPy and SciPy alone, in float64.

    min_x h(x) = F(x, y_x)      y_x = argmin_y  CE(y; train) + ½ Σ_i e^{x_i} ‖y_i‖²
    F(x, y) = CE(y; validation) + β/2 ‖x − x_0‖²

Softmax regression on the digits that scikit-learn brings: y_i has the ten weights of pixel i, and
x_i is the logarithm of its L2 coefficient. The reference solves the inner problem with Newton's
method and the linear system with Cholesky's factors:

    ∇h = ∇_x F − ∇²_xy G v,     (∇²_yy G) v = ∇_y F,     (∇²_xy G v)_i = e^{x_i} ⟨y_i, v_i⟩
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from sklearn.datasets import load_digits

Array = npt.NDArray[np.float64]
TRAIN, VALIDATION, CLASSES = 200, 500, 10
PRIOR = 1e-3
"""β. Without it coefficients run off to 0 or infinity, and there is no solution to compare with."""
START = np.log(1e-2)


@dataclass
class Problem:
    """The samples, and the exact answers.

    Attributes:
        inputs: Pixels of the training samples, in [0, 1].
        labels: Their classes.
        validation_inputs: Pixels of the samples of F.
        validation_labels: Their classes.
    """

    inputs: Array
    labels: npt.NDArray[np.int64]
    validation_inputs: Array
    validation_labels: npt.NDArray[np.int64]
    _y: Array = field(init=False)

    def __post_init__(self) -> None:
        """Start Newton's method at zero; later from the last solution."""
        self._y = np.zeros((self.inputs.shape[1], CLASSES))

    @classmethod
    def of_digits(cls, seed: int = 0) -> Problem:
        """Draw the samples."""
        inputs, labels = load_digits(return_X_y=True)
        order = np.random.default_rng(seed).permutation(len(labels))
        train, validation = order[:TRAIN], order[TRAIN : TRAIN + VALIDATION]
        pixels, classes = inputs / 16.0, labels.astype(np.int64)
        return cls(pixels[train], classes[train], pixels[validation], classes[validation])

    @property
    def start(self) -> Array:
        """Return x_0."""
        return np.full(self.inputs.shape[1], START)

    def save(self, path: Path) -> None:
        """Write what the programs read."""
        names = ("inputs", "labels", "validation_inputs", "validation_labels", "start")
        np.savez(path, **{name: getattr(self, name) for name in names}, prior=PRIOR)

    def inner_solution(self, x: Array) -> Array:
        """Return y_x."""
        for _ in range(100):
            gradient = _slope(self._y, self.inputs, self.labels) + np.exp(x)[:, None] * self._y
            if np.abs(gradient).max() < 1e-13:
                break
            step = cho_solve(cho_factor(self.hessian(self._y, x)), gradient.ravel())
            self._y = self._y - step.reshape(self._y.shape)
        return self._y

    def hessian(self, y: Array, x: Array) -> Array:
        """Return ∇²_yy G, dense: rows and columns are pixel by pixel, class by class."""
        p, n, d = _softmax(self.inputs @ y), *self.inputs.shape
        mixed = (p[:, :, None] * self.inputs[:, None, :]).reshape(n, -1)  # class by class here
        total = -mixed.T @ mixed / n
        for a in range(CLASSES):
            block = slice(a * d, (a + 1) * d)
            total[block, block] += self.inputs.T @ (p[:, a, None] * self.inputs) / n
        square = total.reshape(CLASSES, d, CLASSES, d).transpose(1, 0, 3, 2)
        return square.reshape(d * CLASSES, -1) + np.diag(np.repeat(np.exp(x), CLASSES))

    def h(self, x: Array) -> tuple[float, Array]:
        """Return the value and the hypergradient at x."""
        y = self.inner_solution(x)
        slope = _slope(y, self.validation_inputs, self.validation_labels)
        v = cho_solve(cho_factor(self.hessian(y, x)), slope.ravel()).reshape(y.shape)
        away = x - self.start
        value = _cross_entropy(y, self.validation_inputs, self.validation_labels)
        return (
            value + PRIOR / 2 * float(away @ away),
            PRIOR * away - np.exp(x) * (y * v).sum(axis=1),
        )

    def descent(self, rounds: int, lr: float) -> Array:
        """Return x after steps along the exact hypergradient."""
        x = self.start
        for _ in range(rounds):
            x = x - lr * self.h(x)[1]
        return x

    @cached_property
    def least(self) -> float:
        """Return the smallest h, by L-BFGS."""
        stop = {"maxiter": 500, "ftol": 1e-15, "gtol": 1e-9}
        return float(minimize(self.h, self.start, jac=True, method="L-BFGS-B", options=stop).fun)


def _softmax(logits: Array) -> Array:
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def _cross_entropy(y: Array, inputs: Array, labels: npt.NDArray[np.int64]) -> float:
    chosen = _softmax(inputs @ y)[np.arange(len(labels)), labels]
    return float(-np.log(chosen).mean())


def _slope(y: Array, inputs: Array, labels: npt.NDArray[np.int64]) -> Array:
    p = _softmax(inputs @ y)
    p[np.arange(len(labels)), labels] -= 1.0
    return inputs.T @ p / len(labels)
