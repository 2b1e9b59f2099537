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

No table of all P(j | c, x_i), which would be [n, C, C], is needed for any of these sums. With

    E[c, j] = exp(A[c, j] + b_m 1[j = c]),     w_ij = p_j(x_i)^β,     D = w Eᵀ

P(j | c, x_i) is E[c, j] w_ij / D_ic, and sums over i or j are products of [n, C] with [C, C].
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

ROW_COUNT = 1.0  # of the prior, in a row of A
RATE_SD, BETA_SD = 5.0, 1.0
CHUNK = 2**21  # numbers in one array [samples, C]


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

    def scores(self, rate: float) -> Tensor:
        """Return log E, at a site with this rate."""
        return self.matrix + rate * torch.eye(len(self.matrix), dtype=torch.float64)

    def table(self, rate: float, logs: Tensor) -> Tensor:
        """Return log P(ỹ = j | c, x) of every sample as [n, c, j]."""
        return (self.scores(rate) + self.beta * logs[:, None, :]).log_softmax(dim=2)

    def chances(self, rate: float) -> Tensor:
        """Return log P(ỹ = j | c) as [c, j], without what depends on the sample."""
        return self.scores(rate).log_softmax(dim=1)


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


class _Posterior:
    """P(true c | x, ỹ) of samples at a site, and what the sums are made of."""

    def __init__(self, model: Confusion, rate: float, logs: Tensor, labels: Tensor) -> None:
        scores, tilt = model.scores(rate), model.beta * logs
        tilt = tilt - tilt.amax(dim=1, keepdim=True)
        self.E, self.w = scores.exp(), tilt.exp()
        self.D = self.w @ self.E.mT
        given = scores.mT[labels] + tilt.gather(1, labels[:, None]) - self.D.log()
        joint = logs + given  # log p_c P(ỹ | c, x)
        self.evidence = joint.logsumexp(dim=1)
        self.q = (joint - self.evidence[:, None]).exp()

    def right(self) -> Tensor:
        """Return P(ỹ = c | c, x) as [n, C]."""
        return self.E.diagonal() * self.w / self.D

    def mean(self, values: Tensor) -> Tensor:
        """Return Σ_j P(j | c, x_i) values_ij as [n, C]."""
        return (self.w * values) @ self.E.mT / self.D


def beliefs(model: Confusion, rate: float, logs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return P(true c | x, ỹ) as [n, C], and log P(ỹ | x)."""
    found = _Posterior(model, rate, logs, labels)
    return found.q, found.evidence


def site_step(model: Confusion, rate: float, logs: Tensor, labels: Tensor) -> tuple[float, Sums]:
    """Step a site's rate with A and β fixed; return it, and the sums at the new rate."""
    gradient, curvature = -rate / RATE_SD**2, 1 / RATE_SD**2
    for part, given in _parts(logs, labels):
        found = _Posterior(model, rate, part, given)
        right = found.right()
        likely = found.q * right
        gradient += float(found.q.gather(1, given[:, None]).sum() - likely.sum())
        curvature += float((likely * (1 - right)).sum())
    rate += gradient / curvature
    zero = torch.zeros_like(model.matrix)
    total = Sums(zero, zero)
    for part, given in _parts(logs, labels):
        total += _sums(model, rate, part, given)
    return rate, total


def _sums(model: Confusion, rate: float, logs: Tensor, labels: Tensor) -> Sums:
    found = _Posterior(model, rate, logs, labels)
    counts = torch.zeros_like(model.matrix).index_add_(1, labels, found.q.mT.contiguous())
    expected = found.E * ((found.q / found.D).mT @ found.w)
    mean = found.mean(logs)
    spread = found.mean(logs.square()) - mean.square()
    slope = (found.q * (logs.gather(1, labels[:, None]) - mean)).sum()
    curvature, likely = (found.q * spread).sum(), found.evidence.sum()
    return Sums(counts, expected, float(slope), float(curvature), float(likely))


def shared_step(model: Confusion, sums: Sums, *, free: bool) -> Confusion:
    """Step A, and β where it is free, by the sums of all sites."""
    classes = len(model.matrix)
    prior = ROW_COUNT / classes
    above = sums.counts + prior
    below = sums.expected + ROW_COUNT * model.matrix.softmax(dim=1)
    matrix = (model.matrix + above.log() - below.log()).log_softmax(dim=1)
    if not free:
        return Confusion(matrix)
    return Confusion(matrix, model.beta + _beta_step(model.beta, sums))


def _beta_step(beta: float, sums: Sums) -> float:
    return (sums.slope - beta / BETA_SD**2) / (sums.curvature + 1 / BETA_SD**2)


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


def own_beta(
    model: Confusion, logs: Tensor, labels: Tensor, *, steps: int = 100, tolerance: float = 1e-3
) -> float:
    """Return the β of one site with A as it is, and the site's rate free."""
    rate, beta = 0.0, model.beta
    for _ in range(steps):
        rate, sums = site_step(Confusion(model.matrix, beta), rate, logs, labels)
        change = _beta_step(beta, sums)
        beta += change
        if abs(change) < tolerance:
            break
    return beta


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


def _parts(logs: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    size = max(1, CHUNK // max(1, logs.shape[1]))
    count = max(1, math.ceil(len(labels) / size))
    yield from zip(logs.tensor_split(count), labels.tensor_split(count), strict=True)
