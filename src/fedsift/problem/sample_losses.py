"""What a classifier says of single samples: their losses, and how far it shares their labels.

| function        | gives                                                               |
|-----------------|---------------------------------------------------------------------|
| `sample_losses` | ℓ(y; s_j) of every sample                                           |
| `histogram`     | how many losses fall into each bin: all of them that leaves a site  |
| `keep_below`    | 1 where ℓ_j is at most a threshold, else 0                          |
| `label_share`   | p(label) / (p(label) + the largest other p), below ½ exactly where  |
|                 | another class is more probable                                      |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from fedsift.errors import InputError
from fedsift.problem.protocol import Problem, chunks

CHUNK = 256  # samples in one pass: no graph is kept, so memory allows more than in training


@runtime_checkable
class Classifier(Protocol):
    """A problem of samples with a label each."""

    def outputs(self, y: Tensor, batch: Any) -> Tensor:
        """Return the logits."""
        ...

    def sample_losses(self, y: Tensor, batch: Any) -> Tensor:
        """Return ℓ(y; s_j) for every sample."""
        ...


def sample_losses(problem: Problem, y: Tensor, batch: Any) -> Tensor:
    """Return ℓ(y; s_j) for every sample, no sample weighing more than another."""
    classifier = _classifier(problem)
    return _in_chunks(lambda part: classifier.sample_losses(y, part), batch)


def histogram(losses: Tensor, edges: Tensor) -> Tensor:
    """Count losses up to the first edge, between neighbours (the upper included), above the last.

    Edges ascend. A loss that is not a number counts as above the last.
    """
    return torch.bucketize(losses, edges).bincount(minlength=len(edges) + 1)


def keep_below(losses: Tensor, threshold: float) -> tuple[Tensor, bool]:
    """Return 1 where the loss is at most the threshold, else 0; and whether any loss is.

    Where none is, the sample of the lowest loss is kept: a site cannot train on nothing, and one
    sample among all weighs next to nothing.
    """
    kept = losses <= threshold
    found = bool(kept.any())
    if not found:
        kept[losses.argmin()] = True
    return kept.to(losses.dtype), found


def label_share(problem: Problem, y: Tensor, batch: Any) -> Tensor:
    """Return p(label) / (p(label) + the largest other p) = σ(z_label − the largest other z)."""
    classifier = _classifier(problem)

    def of(part: Any) -> Tensor:
        logits, labels = classifier.outputs(y, part), part.labels[:, None]
        own = logits.gather(1, labels).squeeze(1)
        return (own - logits.scatter(1, labels, -torch.inf).amax(dim=1)).sigmoid()

    return _in_chunks(of, batch)


@torch.no_grad()
def _in_chunks(of: Callable[[Any], Tensor], batch: Any) -> Tensor:
    return torch.cat([of(part) for part in chunks(batch, CHUNK)])


def _classifier(problem: Problem) -> Classifier:
    if not isinstance(problem, Classifier):
        raise InputError(
            f"the problem {type(problem).__name__} has no losses of single samples; this method "
            "needs a problem with sample_losses(y, batch) and outputs(y, batch)"
        )
    return problem
