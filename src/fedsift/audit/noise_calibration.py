"""How probable is it that a label is right? By the noise model, with out-of-fold probabilities.

    P(true c | x, ỹ) ∝ p_c(x)^(1/T) softmax_ỹ(A[c, ·] + b 1[· = c] + β log p(x)/T)

p is by heads that have not seen the label, T by clean samples that the heads have not seen: nothing
is corrected by a constant. b, the site's rate, is integrated over its posterior (by its curvature).

| β               | judgement                          | interval of a share of wrong labels    |
|-----------------|------------------------------------|----------------------------------------|
| below ``LIMIT`` | the posterior                      | both noise models' (β free, β = 0):    |
|                 |                                    | the union, each with the error of e    |
| above           | heads of the clean set alone:      | [d − e n/n', d + e n/n'], whatever the |
|                 | a label is suspect where another   | noise is                               |
|                 | class is more probable             |                                        |

d is the share of labels with which the heads disagree, e their judged error at its upper 95 %
bound, n' of the n labels are meant: |d − share of wrong labels| is at most the heads' error.

``LIMIT``: at β = 1 labels are confused as the heads themselves confuse classes, and then a wrong
label looks like a right one to every model that is fitted to it; labels by people have 0.1 to 0.35.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, ndtri
from torch import Tensor

from fedsift.audit.calibration import (
    QUANTILES,
    THRESHOLD,
    TWO_SIDED_95,
    Calibration,
    Mask,
    share_of_all,
    within,
)
from fedsift.data.clean_set import ENOUGH
from fedsift.errors import InputError
from fedsift.problem.noise_model import RATE_SD, Confusion, beliefs, fit
from fedsift.problem.temperature import TINY, Array, Ints, fit_temperature

LIMIT = 0.5
ONE_SIDED_95 = 1.645
FARTHEST = 12.0  # of a site's rate, in logits
VISIBLE = 0.1  # of β, below which a summary does not speak of it

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class NoiseCalibration:
    """What the server sends to the sites after the method out-of-fold.

    ``accuracy`` is the judged one of the heads whose probabilities a site's record has. Without
    ``plain`` and ``free``, the matrices A without and with β, every site fits its own.
    """

    temperature: float
    accuracy: float
    samples: int
    judged: tuple[bool, ...]
    beta: float = 0.0
    plain: Matrix | None = None
    free: Matrix | None = None

    @classmethod
    def fit(
        cls, probabilities: Array, labels: Ints, models: tuple[Confusion, Confusion] | None
    ) -> NoiseCalibration:
        """Fit it to clean samples, each judged by heads that were not trained on it."""
        classes = probabilities.shape[1]
        judged = tuple((np.bincount(labels, minlength=classes) >= ENOUGH).tolist())
        found = cls(
            fit_temperature(probabilities, labels),
            float((probabilities.argmax(axis=1) == labels).mean()),
            len(labels),
            judged,
        )
        if models is None:
            return found
        plain, free = (tuple(map(tuple, model.matrix.tolist())) for model in models)
        return replace(found, beta=models[1].beta, plain=plain, free=free)

    def of_clean_heads(self, accuracy: float) -> NoiseCalibration:
        """Return that of the clean heads, whose probabilities are tempered already."""
        return replace(self, temperature=1.0, accuracy=accuracy)

    @property
    def trusting(self) -> bool:
        """Whether the noise model describes the labels."""
        return self.beta <= LIMIT

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> NoiseCalibration:
        """Read it from JSON."""
        try:
            judged = tuple(bool(j) for j in values["judged"])
            found = cls(
                float(values["temperature"]),
                float(values["accuracy"]),
                int(values["samples"]),
                judged,
                float(values["beta"]),
                _matrix(values["plain"], len(judged)),
                _matrix(values["free"], len(judged)),
            )
            numbers = found.temperature, found.accuracy, found.beta
            if not np.isfinite(numbers).all() or found.temperature <= 0:
                raise ValueError
            return found
        except (KeyError, TypeError, ValueError):
            raise InputError(
                "the noise model of this run cannot be read; make the run again"
            ) from None

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        rows = {n: None if m is None else [list(row) for row in m] for n, m in self._matrices()}
        return {**vars(self), "judged": list(self.judged), **rows, "kind": "noise-model"}

    def _matrices(self) -> tuple[tuple[str, Matrix | None], ...]:
        return ("plain", self.plain), ("free", self.free)

    def known(self, probabilities: Array) -> Array:
        """Clip probabilities to what this many clean samples can tell."""
        return within(probabilities, self.samples)

    def posterior(self, probabilities: Array, labels: Ints) -> NoisePosterior:
        """Return the posterior of a site's labels."""
        if len(self.judged) != probabilities.shape[1]:
            raise InputError(
                f"the noise model of this run is for {len(self.judged)} classes but its model has "
                f"{probabilities.shape[1]}; make the run again"
            )
        logs = log_softmax(np.log(np.maximum(probabilities, TINY)) / self.temperature, axis=1)
        plain, free = self._models(logs, labels)
        disagree = logs.argmax(axis=1) != labels
        judged = np.array(self.judged)[labels]
        if free.beta > LIMIT:
            return NoisePosterior(*_alone(logs, labels), disagree, judged, self, free.beta)
        with_beta, classes = _nodes(free, logs, labels)
        without, _ = _nodes(plain, logs, labels)
        nodes = np.stack([with_beta, without])
        return NoisePosterior(nodes, classes, disagree, judged, self, free.beta)

    def _models(self, logs: Array, labels: Ints) -> tuple[Confusion, Confusion]:
        if self.plain is None or self.free is None:
            site = [(torch.from_numpy(logs), torch.from_numpy(labels))]
            return fit(site, free=False)[0], fit(site, free=True)[0]
        plain, free = (torch.tensor(m, dtype=torch.float64) for m in (self.plain, self.free))
        return Confusion(plain), Confusion(free, self.beta)


@dataclass(frozen=True, eq=False)
class NoisePosterior:
    """The posterior of a site's labels.

    ``nodes`` [models, values of b, samples] are P(right), the first model's being the score;
    ``classes`` is P(true class) of every sample.
    """

    nodes: Array
    classes: Array
    disagree: Mask
    judged: Mask
    calibration: NoiseCalibration
    beta: float

    @property
    def right(self) -> Array:
        """P(right) of every sample."""
        found: Array = self.nodes[0].mean(axis=0)
        return found

    @property
    def flagged(self) -> Mask:
        """Whether a label is more probably wrong than right."""
        return self.judged & (self.right < THRESHOLD)

    @property
    def order(self) -> Array:
        """What labels are ordered by: P(right), at least ½ where nothing speaks against a label."""
        return np.where(self.judged, self.right, np.maximum(self.right, THRESHOLD))

    @property
    def basis(self) -> str:
        """Which judgement and which interval apply, in words."""
        if self.beta > LIMIT:
            return (
                f"how labels go wrong depends on the sample (β = {self.beta:.2f}), which no matrix "
                "describes; labels are judged by the clean set alone, and intervals are wide "
                "because they assume nothing of the noise"
            )
        partly = "" if self.beta < VISIBLE else " and partly on how a sample looks"
        return (
            f"how labels go wrong depends on the class{partly} (β = {self.beta:.2f}); scores and "
            "intervals are those of a noise model"
        )

    def wrong_share(self, members: Mask | None = None) -> tuple[float, float, float]:
        """Return the estimated share of wrong labels and its 95 % interval."""
        share = self._without_model if self.beta > LIMIT else self._by_model
        return share_of_all(self.judged, self.right, members, share)

    def _by_model(self, chosen: Mask) -> tuple[float, float, float]:
        count, error = chosen.sum(), 1 - self.calibration.accuracy
        clean = max(1.0, self.calibration.samples * count / len(chosen))
        lows, highs = [], []
        for nodes in self.nodes[:, :, chosen]:
            shares = 1 - nodes.mean(axis=1)
            drawn = (nodes * (1 - nodes)).sum(axis=1).mean() / count**2
            variance = drawn + shares.var() + error * (1 - error) / clean
            half = TWO_SIDED_95 * float(np.sqrt(variance))
            lows.append(float(shares.mean()) - half)
            highs.append(float(shares.mean()) + half)
        return float(1 - self.right[chosen].mean()), min(lows), max(highs)

    def _without_model(self, chosen: Mask) -> tuple[float, float, float]:
        total, clean = len(chosen), max(1, self.calibration.samples)
        error = 1 - self.calibration.accuracy
        spread = np.sqrt(max(error * (1 - error), 1 / clean**2) * (1 / clean + 1 / total))
        most = (error + ONE_SIDED_95 * spread) * total / chosen.sum()
        d = float(self.disagree[chosen].mean())
        return d, d - float(most), d + float(most)


def _matrix(rows: Any, classes: int) -> Matrix | None:
    if rows is None:
        return None
    matrix = np.array(rows, dtype=np.float64)
    if matrix.shape != (classes, classes) or not np.isfinite(matrix).all():
        raise ValueError
    return tuple(map(tuple, matrix.tolist()))


def _alone(logs: Array, labels: Ints) -> tuple[Array, Array]:
    """Return the heads' own judgement: P(label) / (P(label) + the largest other P)."""
    every, p = np.arange(len(labels)), np.exp(logs)
    others = p.copy()
    others[every, labels] = 0.0
    right = p[every, labels] / np.maximum(p[every, labels] + others.max(axis=1), TINY)
    classes = (1 - right)[:, None] * others / np.maximum(others.sum(axis=1, keepdims=True), TINY)
    classes[every, labels] = right
    return right[None, None], classes


def _nodes(model: Confusion, logs: Array, labels: Ints) -> tuple[Array, Array]:
    """Return P(right) at quantiles of the site's rate, and P(true class) of every sample."""
    tensors = torch.from_numpy(logs), torch.from_numpy(labels)

    def loss(rate: float) -> float:
        evidence = float(beliefs(model, rate, *tensors)[1].sum())
        return 0.5 * (rate / RATE_SD) ** 2 - evidence

    bounds = (-FARTHEST, FARTHEST)
    middle = float(minimize_scalar(loss, bounds=bounds, method="bounded").x)
    step = 0.1
    curvature = (loss(middle + step) - 2 * loss(middle) + loss(middle - step)) / step**2
    spread = 1 / np.sqrt(max(curvature, 1 / RATE_SD**2))
    rates = middle + spread * ndtri(QUANTILES)
    found = torch.stack([beliefs(model, float(rate), *tensors)[0] for rate in rates])
    right = found.gather(2, tensors[1][None, :, None].expand(len(rates), -1, 1)).squeeze(2)
    return _array(right), _array(found.mean(dim=0))


def _array(values: Tensor) -> Array:
    found: Array = values.numpy()
    return found


AnyCalibration = Calibration | NoiseCalibration


def read_calibration(values: Mapping[str, Any] | None) -> AnyCalibration:
    """Read the calibration of a run from JSON, of whichever kind it is."""
    if values is not None and values.get("kind") == "noise-model":
        return NoiseCalibration.from_mapping(values)
    return Calibration.from_mapping(values)
