"""How probable is it that a label is right? By noise models, with out-of-fold probabilities.

    P(true c | x, ỹ) ∝ p_c(x)^(1/T) softmax_ỹ(A[c, ·] + b 1[· = c] + β log p(x)/T)

p is by heads that have not seen the label, T by clean samples that the heads have not seen: nothing
is corrected by a constant. b, the site's rate, is integrated over its posterior (by its curvature).

Three models were fitted in the rounds (``problem/noise_models.py``): A without and with
β to what heads of the clean set say, and A with β to what trained heads say out of fold. The score
is the mean of the last two, the third having the weight (β/``DOUBT``)² of the second's β: the
higher that is, the weaker the clean heads are. Where no model is to be trusted:
``noise_posterior.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.special import log_softmax

from fedsift.audit.calibration import Calibration, within
from fedsift.audit.noise_posterior import (
    DOUBT,
    LIMIT,
    Heads,
    NoisePosterior,
    by_model,
)
from fedsift.data.clean_set import ENOUGH
from fedsift.errors import InputError
from fedsift.problem.noise_model import Confusion, fit, own_beta
from fedsift.problem.noise_models import FREE, TRAINED, NoiseModels
from fedsift.problem.temperature import TINY, Array, Ints, fit_temperature

MATRICES = ("plain", "free", "trained")

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class NoiseCalibration:
    """What the server sends to the sites after the method out-of-fold.

    ``accuracy`` and ``clean_accuracy`` are the judged ones of the trained heads and of the clean
    heads. Without ``plain``, ``free`` and ``trained``, the matrices A of the noise models, every
    site fits its own. ``beta`` and ``trained_beta`` belong to the last two.
    """

    temperature: float
    accuracy: float
    clean_accuracy: float
    samples: int
    judged: tuple[bool, ...]
    beta: float = 0.0
    trained_beta: float = 0.0
    plain: Matrix | None = None
    free: Matrix | None = None
    trained: Matrix | None = None

    @classmethod
    def fit(
        cls, probabilities: Array, labels: Ints, clean_accuracy: float, models: NoiseModels | None
    ) -> NoiseCalibration:
        """Fit it to clean samples, each judged by heads that were not trained on it."""
        classes = probabilities.shape[1]
        judged = tuple((np.bincount(labels, minlength=classes) >= ENOUGH).tolist())
        accuracy = float((probabilities.argmax(axis=1) == labels).mean())
        temperature = fit_temperature(probabilities, labels)
        found = cls(temperature, accuracy, clean_accuracy, len(labels), judged)
        if models is None:
            return found
        plain, free, trained = (tuple(map(tuple, matrix.tolist())) for matrix in models.matrices)
        found = replace(found, beta=models[FREE].beta, trained_beta=models[TRAINED].beta)
        return replace(found, plain=plain, free=free, trained=trained)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> NoiseCalibration:
        """Read it from JSON."""
        try:
            judged = tuple(bool(j) for j in values["judged"])
            found = cls(
                float(values["temperature"]),
                float(values["accuracy"]),
                float(values["clean_accuracy"]),
                int(values["samples"]),
                judged,
                float(values["beta"]),
                float(values["trained_beta"]),
                *(_matrix(values[name], len(judged)) for name in MATRICES),
            )
            numbers = [value for value in vars(found).values() if isinstance(value, float)]
            if not np.isfinite(numbers).all() or found.temperature <= 0:
                raise ValueError
            return found
        except (KeyError, TypeError, ValueError):
            raise InputError(
                "the noise model of this run cannot be read; make the run again"
            ) from None

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        values = {**vars(self), "judged": list(self.judged), "kind": "noise-model"}
        for name in MATRICES:
            rows = values[name]
            values[name] = None if rows is None else [list(row) for row in rows]
        return values

    def known(self, probabilities: Array) -> Array:
        """Clip probabilities to what this many clean samples can tell."""
        return within(probabilities, self.samples)

    def posterior(
        self, probabilities: Array, labels: Ints, clean: Array | None = None
    ) -> NoisePosterior:
        """Return the posterior of a site's labels; ``clean`` is what the clean heads say."""
        if len(self.judged) != probabilities.shape[1]:
            raise InputError(
                f"the noise model of this run is for {len(self.judged)} classes but its model has "
                f"{probabilities.shape[1]}; make the run again"
            )
        logs, judged = _tempered(probabilities, self.temperature), np.array(self.judged)[labels]
        plain, free, trained = self._models(logs, labels)
        beta = own_beta(plain, torch.from_numpy(logs), torch.from_numpy(labels))
        first = logs if clean is None else _tempered(clean, 1.0)
        accuracy = self.accuracy if clean is None else self.clean_accuracy
        make = partial(
            NoisePosterior,
            heads=Heads(self.accuracy, self.samples),
            disagree=first.argmax(axis=1) != labels,
            clean=Heads(accuracy, self.samples),
            judged=judged,
            calibration=self,
            beta=beta,
            clean_beta=free.beta,
        )
        if beta > LIMIT:
            p, every = np.exp(first), np.arange(len(labels))
            return make(p[every, labels], p, np.zeros((0, 1, len(labels))))
        found = [by_model(model, logs, labels) for model in (trained, plain)]
        right, classes = found[0][0].mean(axis=0), found[0][1]
        if free.beta <= DOUBT:
            found += [by_model(free, part, labels) for part in (logs, first)]
            share = max(0.0, free.beta / DOUBT) ** 2
            right = share * right + (1 - share) * found[2][0].mean(axis=0)
            classes = share * classes + (1 - share) * found[2][1]
        return make(right, classes, np.stack([n for n, _ in found]))

    def _models(self, logs: Array, labels: Ints) -> list[Confusion]:
        """Return those without β, with β by clean heads, and with β by trained heads."""
        if self.plain is None or self.free is None or self.trained is None:
            site = [(torch.from_numpy(logs), torch.from_numpy(labels))]
            plain, own = (fit(site, free=free)[0] for free in (False, True))
            return [plain, own, own]
        matrices = torch.tensor([self.plain, self.free, self.trained], dtype=torch.float64)
        betas = 0.0, self.beta, self.trained_beta
        return [Confusion(*pair) for pair in zip(matrices, betas, strict=True)]


def _tempered(probabilities: Array, temperature: float) -> Array:
    found: Array = log_softmax(np.log(np.maximum(probabilities, TINY)) / temperature, axis=1)
    return found


def _matrix(rows: Any, classes: int) -> Matrix | None:
    if rows is None:
        return None
    matrix = np.array(rows, dtype=np.float64)
    if matrix.shape != (classes, classes) or not np.isfinite(matrix).all():
        raise ValueError
    return tuple(map(tuple, matrix.tolist()))


AnyCalibration = Calibration | NoiseCalibration


def read_calibration(values: Mapping[str, Any] | None) -> AnyCalibration:
    """Read the calibration of a run from JSON, of whichever kind it is."""
    if values is not None and values.get("kind") == "noise-model":
        return NoiseCalibration.from_mapping(values)
    return Calibration.from_mapping(values)
