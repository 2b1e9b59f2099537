"""How labels go wrong: a matrix for all sites, a rate per site, and what depends on the sample.

    P(ỹ = j | true c, x, site m) = softmax_j(A[c, j] + b_m 1[j = c] + β log p_j(x))
    P(true c | x, ỹ)             ∝ p_c(x) P(ỹ | c, x)

| symbol | in code   | meaning                                                                   |
|--------|-----------|---------------------------------------------------------------------------|
| A      | `matrix`  | class-conditional confusions; rows sum to one as probabilities            |
| b_m    | `rate`    | how much more often than elsewhere the labels of site m are right         |
| β      | `beta`    | 0: which label a wrong one is depends on the class alone; above: on how   |
|        |           | the sample looks, as with labels by people and worse                      |
| p      | `logs`    | probabilities by heads that have not seen the label                       |

Fitted by the largest marginal likelihood Σ_i log Σ_c p_c(x_i) P(ỹ_i | c, x_i) with weak priors: one
count per row of A, b_m ~ N(0, 5²), β ~ N(0, 1). A site takes a step on its own b_m, then replies
with sums over its samples (q: P(true | x, ỹ); counts N and M below), from which the server steps A
and β: one exchange per step, no matter how many samples there are.

    N[c, j] = Σ_i q_ic 1[ỹ_i = j],     M[c, j] = Σ_i q_ic P(j | c, x_i)
    A ← A + log (N + ε) / (M + C ε P)

At a fixed point the gradient is zero. With β = 0 and equal b_m it is an EM step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

ROW_COUNT = 1.0  # of the prior, in a row of A
RATE_SD, BETA_SD = 5.0, 1.0
CHUNK = 2**21  # numbers in one table [samples, C, C]


@dataclass(frozen=True, eq=False)
class Confusion:
    """A [C, C] in float64 and β."""

    matrix: Tensor
    beta: float = 0.0

    @classmethod
    def start(cls, classes: int) -> Confusion:
        """Half of the labels right, all wrong ones equally likely: sites then find their rates."""
        matrix = torch.full((classes, classes), 0.5 / max(classes - 1, 1), dtype=torch.float64)
        return cls(matrix.fill_diagonal_(0.5).log())

    def table(self, rate: float, logs: Tensor) -> Tensor:
        """Return log P(ỹ = j | c, x) as [n, c, j]; [1, c, j] where it is the same for all."""
        scores = self.matrix + rate * torch.eye(len(self.matrix), dtype=torch.float64)
        if self.beta == 0.0:
            return scores.log_softmax(dim=1)[None]
        return (scores + self.beta * logs[:, None, :]).log_softmax(dim=2)


@dataclass(frozen=True, eq=False)
class Sums:
    """What a site tells of its labels: N, M, and gradient and curvature of β; the likelihood."""

    counts: Tensor
    expected: Tensor
    slope: float = 0.0
    curvature: float = 0.0
    likelihood: float = 0.0

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.counts + other.counts,
            self.expected + other.expected,
            self.slope + other.slope,
            self.curvature + other.curvature,
            self.likelihood + other.likelihood,
        )

    def packed(self) -> Tensor:
        """Return them as one vector."""
        rest = torch.tensor([self.slope, self.curvature, self.likelihood], dtype=torch.float64)
        return torch.cat([self.counts.flatten(), self.expected.flatten(), rest])

    @classmethod
    def unpacked(cls, values: Tensor, classes: int) -> Sums:
        """Read them from a vector."""
        pair = values[:-3].view(2, classes, classes)
        return cls(pair[0], pair[1], *values[-3:].tolist())


def beliefs(model: Confusion, rate: float, logs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return P(true c | x, ỹ) as [n, C], and log P(ỹ | x)."""
    return _beliefs(model.table(rate, logs), logs, labels)


def _beliefs(table: Tensor, logs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    joint = logs + _given(table, labels)
    evidence = joint.logsumexp(dim=1)
    return (joint - evidence[:, None]).exp(), evidence


def site_step(
    model: Confusion, rate: float, logs: Tensor, labels: Tensor, *, inner: int = 1
) -> tuple[float, Sums]:
    """Step a site's rate with A and β fixed; return it, and the sums at the new rate."""
    for _ in range(inner):
        gradient, curvature = -rate / RATE_SD**2, 1 / RATE_SD**2
        for part, given in _parts(logs, labels):
            table = model.table(rate, part)
            q, _ = _beliefs(table, part, given)
            right = table.diagonal(dim1=1, dim2=2).exp()
            gradient += float(q.gather(1, given[:, None]).sum() - (q * right).sum())
            curvature += float((q * right * (1 - right)).sum())
        rate += gradient / curvature
    classes = len(model.matrix)
    zero = torch.zeros(classes, classes, dtype=torch.float64)
    total = Sums(zero, zero)
    for part, given in _parts(logs, labels):
        total += _sums(model, rate, part, given)
    return rate, total


def _sums(model: Confusion, rate: float, logs: Tensor, labels: Tensor) -> Sums:
    table = model.table(rate, logs)
    q, evidence = _beliefs(table, logs, labels)
    chances = table.exp()
    every = chances.expand(len(labels), -1, -1)
    counts = torch.zeros_like(model.matrix).index_add_(1, labels, q.mT.contiguous())
    expected = (
        chances[0] * q.sum(dim=0)[:, None]
        if len(chances) == 1
        else (q[:, :, None] * chances).sum(0)
    )
    mean = (every @ logs[:, :, None]).squeeze(2)
    spread = (every @ logs.square()[:, :, None]).squeeze(2) - mean.square()
    slope = (q * (logs.gather(1, labels[:, None]) - mean)).sum()
    return Sums(counts, expected, float(slope), float((q * spread).sum()), float(evidence.sum()))


def shared_step(model: Confusion, sums: Sums, *, free: bool) -> Confusion:
    """Step A, and β where it is free, by the sums of all sites."""
    classes = len(model.matrix)
    prior = ROW_COUNT / classes
    above = sums.counts + prior
    below = sums.expected + ROW_COUNT * model.matrix.softmax(dim=1)
    matrix = (model.matrix + above.log() - below.log()).log_softmax(dim=1)
    if not free:
        return Confusion(matrix)
    change = (sums.slope - model.beta / BETA_SD**2) / (sums.curvature + 1 / BETA_SD**2)
    return Confusion(matrix, model.beta + change)


def fit(
    sites: Sequence[tuple[Tensor, Tensor]], *, free: bool, steps: int = 300, tolerance: float = 1e-6
) -> tuple[Confusion, list[float]]:
    """Fit the model to the (logs, labels) of sites in one place; return their rates, too."""
    model, rates = Confusion.start(sites[0][0].shape[1]), [0.0] * len(sites)
    for _ in range(steps):
        results = [site_step(model, r, *site) for r, site in zip(rates, sites, strict=True)]
        rates, last = [rate for rate, _ in results], model
        total = results[0][1]
        for _, more in results[1:]:
            total += more
        model = shared_step(model, total, free=free)
        moved = float((model.matrix.exp() - last.matrix.exp()).abs().max())
        if max(moved, abs(model.beta - last.beta)) < tolerance:
            break
    return model, rates


def objective(
    model: Confusion, rates: Sequence[float], sites: Sequence[tuple[Tensor, Tensor]]
) -> float:
    """Return what ``fit`` makes as large as it can: the marginal likelihood and the priors."""
    likely = sum(
        float(beliefs(model, rate, *site)[1].sum()) for rate, site in zip(rates, sites, strict=True)
    )
    row = ROW_COUNT / len(model.matrix) * float(model.matrix.log_softmax(dim=1).sum())
    rate_prior = sum(rate**2 for rate in rates) / (2 * RATE_SD**2)
    return likely + row - rate_prior - model.beta**2 / (2 * BETA_SD**2)


def _given(table: Tensor, labels: Tensor) -> Tensor:
    """Return log P(ỹ_i | c, x_i) as [n, C]."""
    n, classes = len(labels), table.shape[1]
    at = labels[:, None, None].expand(n, classes, 1)
    return table.expand(n, classes, classes).gather(2, at).squeeze(2)


def _parts(logs: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    size = max(1, CHUNK // max(1, logs.shape[1] ** 2))
    count = max(1, math.ceil(len(labels) / size))
    yield from zip(logs.tensor_split(count), labels.tensor_split(count), strict=True)
