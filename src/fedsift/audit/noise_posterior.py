"""The posterior of a site's labels by noise models, or by the clean set alone.

| the site's β    | judgement                          | interval of a share of wrong labels       |
|-----------------|------------------------------------|-------------------------------------------|
| to ``DOUBT``    | the posterior of the noise models  | the union of all models', each with the   |
|                 |                                    | error of e                                |
| to ``LIMIT``    | the same                           | that, and [d − e n/n', d + e n/n'], which |
|                 |                                    | holds whatever the noise is               |
| above           | P(label) by heads of the clean     | the latter alone                          |
|                 | set: labels tell nothing           |                                           |

β is fitted at the site, with the matrix of all sites, to what trained heads say out of fold: noise
may follow the samples at one site and the classes at another.

d is the share of labels with which the clean heads disagree, e their judged error at its upper 95 %
bound, n' of the n labels are meant: |d − share of wrong labels| is at most the heads' error.

``LIMIT`` is 1: labels with β = 1 are drawn as the heads expect the true classes, so hardly any may
be wrong; with more they follow the heads more closely than true ones do. ``DOUBT``: up to 1 it
cannot be told whether labels are right or follow the sample. Labels by people have up to 0.35,
sites where nothing is wrong 0.5 to 1.

Among the models of an interval is one on what the clean heads say: weaker, but no label of any site
is in it, whereas heads of one chain teach each other, and shares come out up to 3 points low.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from scipy.special import ndtri
from torch import Tensor

from fedsift.audit.calibration import (
    QUANTILES,
    THRESHOLD,
    TWO_SIDED_95,
    Knows,
    Mask,
    share_of_all,
)
from fedsift.problem.noise_model import RATE_SD, Confusion, beliefs
from fedsift.problem.temperature import Array, Ints

LIMIT, DOUBT = 1.0, 0.5
ONE_SIDED_95 = 1.645
FARTHEST = 12.0  # of a site's rate, in logits
VISIBLE = 0.1  # of β, below which a summary does not speak of it


@dataclass(frozen=True)
class Heads:
    """Heads that judge: how often they are right, by how many clean samples."""

    accuracy: float
    samples: int


@dataclass(frozen=True, eq=False)
class NoisePosterior:
    """The posterior of a site's labels.

    ``right`` is P(right) and ``classes`` P(true class) of every sample; ``nodes`` [models, values
    of b, samples] are P(right) by each model, none where no model is trusted. ``heads`` are those
    of the models, ``clean`` those that ``disagree`` with labels. ``beta`` is the site's,
    ``clean_beta`` that of all sites by the clean heads.
    """

    right: Array
    classes: Array
    nodes: Array
    heads: Heads
    disagree: Mask
    clean: Heads
    judged: Mask
    calibration: Knows
    beta: float
    clean_beta: float

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
        wide = "intervals are wide because they assume nothing of the noise"
        if not len(self.nodes):
            return (
                f"how labels go wrong depends on the sample (β = {self.beta:.2f}), which no matrix "
                f"describes; labels are judged by the clean set alone, and {wide}"
            )
        if self.beta > DOUBT:
            return (
                f"labels are what the heads expect (β = {self.beta:.2f}): hardly any is wrong, or "
                "they are wrong where the heads are; scores are those of a noise model, which "
                f"takes them for right, but {wide}"
            )
        partly = "" if self.beta < VISIBLE else " and partly on how a sample looks"
        said = (
            f"how labels go wrong depends on the class{partly} (β = {self.beta:.2f}); scores and "
            "intervals are those of a noise model"
        )
        if self.clean_beta <= DOUBT:
            return said
        return (
            f"{said}, fitted to trained heads because those of the clean set cannot tell it "
            f"(β = {self.clean_beta:.2f} by them)"
        )

    def wrong_share(self, members: Mask | None = None) -> tuple[float, float, float]:
        """Return the estimated share of wrong labels and its 95 % interval."""
        return share_of_all(self.judged, self.right, members, self._share)

    def _share(self, chosen: Mask) -> tuple[float, float, float]:
        if not len(self.nodes):
            return self._without_model(chosen)
        estimate, low, high = self._by_models(chosen)
        if self.beta <= DOUBT:
            return estimate, low, high
        _, least, most = self._without_model(chosen)
        return estimate, min(low, least), max(high, most)

    def _by_models(self, chosen: Mask) -> tuple[float, float, float]:
        count, error = chosen.sum(), 1 - self.heads.accuracy
        clean = max(1.0, self.heads.samples * count / len(chosen))
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
        total, clean = len(chosen), max(1, self.clean.samples)
        error = 1 - self.clean.accuracy
        spread = np.sqrt(max(error * (1 - error), 1 / clean**2) * (1 / clean + 1 / total))
        most = (error + ONE_SIDED_95 * spread) * total / chosen.sum()
        d, estimate = float(self.disagree[chosen].mean()), 1 - self.right[chosen].mean()
        low, high = d - float(most), d + float(most)
        return float(np.clip(estimate, low, high)), low, high


def by_model(model: Confusion, logs: Array, labels: Ints) -> tuple[Array, Array]:
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
