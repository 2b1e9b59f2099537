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
Several models are stepped at once, as a leading dimension of all of these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

ROW_COUNT = 1.0  # of the prior, in a row of A
RATE_SD, BETA_SD = 5.0, 1.0
CHUNK = 2**21  # numbers in one array [M, samples, C]


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
        """Return log P(ỹ = j | c, x) of every sample as [n, c, j]."""
        return (_scores(self.matrix, rate) + self.beta * logs[:, None, :]).log_softmax(dim=2)

    def chances(self, rate: float) -> Tensor:
        """Return log P(ỹ = j | c) as [c, j], without what depends on the sample."""
        return _scores(self.matrix, rate).log_softmax(dim=1)


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


def _scores(matrix: Tensor, rate: float | Tensor) -> Tensor:
    """Return log E."""
    return matrix + rate * torch.eye(matrix.shape[-1], dtype=torch.float64)


class _Posterior:
    """P(true c | x, ỹ) of samples at a site, and what the sums are made of."""

    def __init__(self, scores: Tensor, beta: float | Tensor, logs: Tensor, labels: Tensor) -> None:
        tilt = beta * logs
        tilt = tilt - tilt.amax(dim=-1, keepdim=True)
        self.E, self.w = scores.exp(), tilt.exp()
        self.D = self.w @ self.E.mT
        given = scores.mT[..., labels, :] + _at_label(tilt, labels) - self.D.log()
        joint = logs + given  # log p_c P(ỹ | c, x)
        self.evidence = joint.logsumexp(dim=-1)
        self.q = (joint - self.evidence[..., None]).exp()

    def right(self) -> Tensor:
        """Return P(ỹ = c | c, x) as [n, C]."""
        return self.E.diagonal(dim1=-2, dim2=-1)[..., None, :] * self.w / self.D

    def mean(self, values: Tensor) -> Tensor:
        """Return Σ_j P(j | c, x_i) values_ij as [n, C]."""
        return (self.w * values) @ self.E.mT / self.D


def _at_label(values: Tensor, labels: Tensor) -> Tensor:
    """Return what stands at the label of every sample, as [..., n, 1]."""
    return values.gather(-1, labels[:, None].expand(*values.shape[:-1], 1))


def beliefs(model: Confusion, rate: float, logs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return P(true c | x, ỹ) as [n, C], and log P(ỹ | x)."""
    found = _Posterior(_scores(model.matrix, rate), model.beta, logs, labels)
    return found.q, found.evidence


def site_step(model: Confusion, rate: float, logs: Tensor, labels: Tensor) -> tuple[float, Sums]:
    """Step a site's rate with A and β fixed; return it, and the sums at the new rate."""
    beta, before = (torch.tensor([value], dtype=torch.float64) for value in (model.beta, rate))
    after, sums = site_steps(model.matrix[None], beta, before, logs[None], labels)
    return float(after), Sums.unpacked(sums[0], len(model.matrix))


def site_steps(
    matrices: Tensor, betas: Tensor, rates: Tensor, logs: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:
    """Do ``site_step`` with M models, the logs being [M, n, C]; return packed sums, a row each."""
    tilts, parts = betas[:, None, None], list(_parts(logs, labels))
    scores = _scores(matrices, rates[:, None, None])
    gradient, curvature = -rates / RATE_SD**2, torch.full_like(rates, 1 / RATE_SD**2)
    for part, given in parts:
        found = _Posterior(scores, tilts, part, given)
        right = found.right()
        likely = found.q * right
        gradient = gradient + _at_label(found.q, given).sum(dim=(1, 2)) - likely.sum(dim=(1, 2))
        curvature = curvature + (likely * (1 - right)).sum(dim=(1, 2))
    rates = rates + gradient / curvature
    scores = _scores(matrices, rates[:, None, None])
    rows = [_sums(_Posterior(scores, tilts, *part), *part) for part in parts]
    return rates, torch.stack(rows).sum(dim=0)


def _sums(found: _Posterior, logs: Tensor, labels: Tensor) -> Tensor:
    counts = torch.zeros_like(found.E).index_add_(2, labels, found.q.mT.contiguous())
    expected = found.E * ((found.q / found.D).mT @ found.w)
    mean = found.mean(logs)
    spread = found.mean(logs.square()) - mean.square()
    slope = (found.q * (_at_label(logs, labels) - mean)).sum(dim=(1, 2))
    curvature, likely = (found.q * spread).sum(dim=(1, 2)), found.evidence.sum(dim=1)
    rest = torch.stack([slope, curvature, likely], dim=1)
    return torch.cat([counts.flatten(1), expected.flatten(1), rest], dim=1)


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
    """Cut [M, n, C] and [n] into chunks of samples."""
    count = max(1, math.ceil(logs.numel() / CHUNK))
    yield from zip(logs.tensor_split(count, dim=1), labels.tensor_split(count), strict=True)
