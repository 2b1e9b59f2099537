"""Losses of single samples that wrong labels disturb less than cross-entropy, from logits.

| function           | loss of a sample with label l | from                                       |
|--------------------|-------------------------------|--------------------------------------------|
| `corrected`        | −log Σ_c p_c M[c, l]          | forward correction (Patrini et al., 2017), |
|                    |                               | gold loss correction (Hendrycks, 2018)     |
| `soft`             | −Σ_c q_c log p_c              | soft targets q                             |
| `generalised`      | (1 − p_l^q) / q               | Zhang and Sabuncu (2018): 0 < q ≤ 1        |
| `reversed_kl`      | KL(p ‖ q) + β H(p)            | Yi and Wu (2019): q is a learned label     |
| `early_learning`   | −log p_l + λ log(1 − ⟨p, t⟩)  | Liu et al. (2020): t is a running target   |

M[c, j] is the probability that a sample of class c has the label j. ``posterior`` turns M around:
P(class c | x, label l) ∝ p_c M[c, l]. A ``WithLoss`` is a problem's model under another loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedsift.problem.protocol import Composite, KnownActivations

TINY = 1e-6  # keeps logarithms finite where float32 rounds a probability to 0 or 1

SampleLoss = Callable[[Tensor, Any], Tensor]
"""From the logits of a batch and the batch: the loss of every sample."""


@dataclass(frozen=True)
class WithLoss:
    """The model of a problem, trained on another loss of single samples; weights x play no part."""

    problem: Composite
    loss: SampleLoss

    def inner_loss(self, x: Tensor, y: Tensor, batch: Any) -> Tensor:  # noqa: ARG002
        """Return the mean loss plus the problem's l2 term."""
        losses = self.loss(self.problem.outputs(y, batch), batch)
        return losses.mean() + 0.5 * self.problem.l2 * (y @ y)

    def widest(self, batch: Any) -> int:
        """Return how many numbers the model's largest layer has for one sample; 0: not known."""
        return self.problem.widest(batch) if isinstance(self.problem, KnownActivations) else 0


def corrected(logits: Tensor, labels: Tensor, matrix: Tensor) -> Tensor:
    """Return −log Σ_c p_c M[c, label]."""
    logs = matrix.clamp(min=TINY).log()[:, labels].T
    return -torch.logsumexp(logits.log_softmax(dim=1) + logs, dim=1)


def soft(logits: Tensor, targets: Tensor) -> Tensor:
    """Return −Σ_c q_c log p_c; a row of ``targets`` is q of one sample."""
    return cross_entropy(logits, targets, reduction="none")


def generalised(logits: Tensor, labels: Tensor, q: float) -> Tensor:
    """Return (1 − p_label^q) / q: cross-entropy for q → 0, half the absolute error for q = 1."""
    logs = -cross_entropy(logits, labels, reduction="none")
    return -torch.expm1(q * logs) / q


def early_learning(logits: Tensor, labels: Tensor, targets: Tensor, strength: float) -> Tensor:
    """Return −log p_label + λ log(1 − ⟨p, t⟩): the second term pulls p towards t."""
    agreed = (logits.softmax(dim=1) * targets).sum(dim=1)
    pull = torch.log1p(-agreed.clamp(max=1 - TINY))
    return cross_entropy(logits, labels, reduction="none") + strength * pull


def reversed_kl(logits: Tensor, learned: Tensor, entropy: float) -> Tensor:
    """Return KL(p ‖ q) + β H(p); a row of ``learned`` has the logits of q."""
    logs = logits.log_softmax(dim=1)
    inner = (1 - entropy) * logs - learned.log_softmax(dim=1)
    return (logs.exp() * inner).sum(dim=1)


def posterior(p: Tensor, labels: Tensor, matrix: Tensor) -> Tensor:
    """Return P(class c | x, label) ∝ p_c M[c, label], a row per sample."""
    joint = p * matrix[:, labels].T
    return joint / joint.sum(dim=1, keepdim=True).clamp(min=torch.finfo(p.dtype).tiny)


def normalised(counts: Tensor, prior: Tensor) -> Tensor:
    """Return the rows of counts + prior, each divided by its sum."""
    rows = counts + prior
    return rows / rows.sum(dim=1, keepdim=True)
