"""Linear heads of the clean set: each trains on folds that it does not judge.

head k     trains on the clean samples outside fold k, stopped by the judged loss
judged     every clean sample by the head of its fold, at the temperature of lowest loss
l2         as it is given, or moved after every T steps (``learned_l2.py``)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from fedsift.algorithms.clean_only import PATIENCE
from fedsift.algorithms.learned_l2 import LearnedL2
from fedsift.algorithms.state import Server
from fedsift.errors import ConfigError
from fedsift.problem.folds import clean_folds
from fedsift.problem.linear_head import LinearHead, logits, stepped
from fedsift.problem.sgd import LocalSteps, minibatches
from fedsift.problem.temperature import fit_temperature
from fedsift.randomness import generator


@dataclass(frozen=True, eq=False)
class CleanSet:
    """The server's clean samples, centred; γ and the l2 of its heads."""

    features: Tensor
    labels: Tensor
    l2: float
    seed: int

    @classmethod
    def of(cls, server: Server, centre: Tensor, l2: float | None = None) -> CleanSet:
        """Return the clean set of a server; without ``l2`` with that of its problem."""
        batch = server.validation
        l2 = float(getattr(server.problem, "l2", 0.0)) if l2 is None else l2
        features = LinearHead.of(server.problem).centred(batch.inputs, centre)
        return cls(features, batch.labels, l2, server.seed)

    def folds(self, inputs: Tensor, count: int) -> Tensor:
        """Return the fold of every sample."""
        folds = clean_folds(inputs, self.labels, count).to(self.labels.device)
        if int(folds.max()) < 1:
            raise ConfigError(
                f"the validation set has {len(folds)} samples, too few to train {count} heads on "
                "some and judge them on others; give a larger one"
            )
        return folds

    def fit(
        self,
        folds: Tensor,
        start: Tensor,
        local: LocalSteps,
        limit: int,
        name: str,
        *,
        learns: bool = False,
    ) -> tuple[Tensor, LearnedL2]:
        """Train a head per fold on the other folds; return those of lowest judged loss, and L2.

        The latter is as it was, unless it ``learns``.
        """
        count, source = int(folds.max()) + 1, generator(self.seed, f"{name} batches")
        heads = start.repeat(count, 1, 1)
        clean, strength = self, LearnedL2.start(self.l2, heads)
        best, lowest, since = (heads, strength), float("inf"), 0
        for _ in range(max(1, limit // local.steps)):
            heads = clean.sgd(heads, folds, local, source)
            if learns:
                strength = strength.moved(heads, self.features, self.labels, folds, local)
                clean = replace(self, l2=strength.value)
            loss = float(cross_entropy(self.logits(heads, folds), self.labels))
            since += 1
            if loss < lowest:
                best, lowest, since = (heads, strength), loss, 0
            if since >= PATIENCE:
                break
        return best

    def sgd(
        self, heads: Tensor, folds: Tensor, local: LocalSteps, source: torch.Generator
    ) -> Tensor:
        """Take T steps of heads [K, ..., C, D + 1] on the samples outside their folds."""
        seen = (folds[:, None] != torch.arange(len(heads), device=folds.device)).to(heads.dtype)
        inner = [1] * (heads.ndim - 3)
        targets = one_hot(self.labels, heads.shape[-2]).to(heads.dtype)
        parts = self.features, targets, seen
        for at in minibatches(len(self.labels), local, source, self.labels.device):
            x, target, weights = (part if at is None else part[at] for part in parts)
            weights = weights / weights.sum(dim=0).clamp(min=1)
            residuals = logits(heads, x).softmax(dim=-1) - target.view(len(x), 1, *inner, -1)
            residuals = residuals * weights.view(*weights.shape, *inner, 1)
            heads = stepped(heads, x, residuals, local.lr, self.l2)
        return heads

    def logits(self, heads: Tensor, folds: Tensor) -> Tensor:
        """Return the logits [n, C] of every sample under the head of its fold, [K, C, D + 1]."""
        every = torch.arange(len(folds), device=folds.device)
        return logits(heads, self.features)[every, folds]

    def judged(self, heads: Tensor, folds: Tensor) -> Judged:
        """Judge every sample by the head of its fold."""
        p = self.logits(heads, folds).softmax(dim=1).double().cpu()
        return Judged(p, self.labels.cpu())


class Judged:
    """Clean samples by heads that were not trained on them."""

    def __init__(self, probabilities: Tensor, labels: Tensor) -> None:
        self.probabilities, self.labels = probabilities, labels
        self.temperature = fit_temperature(probabilities.numpy(), labels.numpy())
        tempered = probabilities.clamp(min=1e-30).log() / self.temperature
        self.loss = float(cross_entropy(tempered, labels))
        self.accuracy = float((probabilities.argmax(dim=1) == labels).double().mean())
