"""Single samples under a classifier: their losses, and how far it agrees with their labels.

| function          | gives                                                               |
|-------------------|---------------------------------------------------------------------|
| `sample_losses`   | ℓ(y; s_j) of every sample                                           |
| `histogram`       | how many losses fall into each bin: only these counts leave a site  |
| `keep_below`      | 1 where ℓ_j is at most a threshold, else 0                          |
| `label_agreement` | p(label) / (p(label) + the largest other p), below ½ exactly where  |
|                   | another class is more probable; from logits                         |
| `label_share`     | the same of every sample at a model                                 |
| `probabilities`   | p(c) of every sample and class at a model                           |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fedsift.errors import InputError
from fedsift.problem.protocol import Problem, SampleWeighting, chunks, pass_length

CHUNK = 256  # samples in one pass: no graph is kept, so memory allows more than in training


def sample_losses(problem: Problem, y: Tensor, batch: Any) -> Tensor:
    """Return ℓ(y; s_j) for every sample, no sample weighing more than another."""
    weighting = with_sample_losses(problem)
    return _in_chunks(lambda part: weighting.sample_losses(y, part), problem, batch)


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


def label_agreement(logits: Tensor, labels: Tensor) -> Tensor:
    """Return σ(z_label − the largest other z) = p(label) / (p(label) + the largest other p)."""
    own = logits.gather(1, labels[:, None]).squeeze(1)
    other = logits.scatter(1, labels[:, None], -torch.inf).amax(dim=1)
    return torch.sigmoid(own - other)


def label_share(problem: Problem, y: Tensor, batch: Any) -> Tensor:
    """Return how far the model agrees with the label, for every sample."""
    weighting = with_sample_losses(problem)

    def share(part: Any) -> Tensor:
        return label_agreement(weighting.outputs(y, part), part.labels)

    return _in_chunks(share, problem, batch)


def probabilities(problem: Problem, y: Tensor, batch: Any) -> Tensor:
    """Return p(c), a row per sample."""
    weighting = with_sample_losses(problem)
    return _in_chunks(lambda part: weighting.outputs(y, part).softmax(dim=1), problem, batch)


@torch.no_grad()
def _in_chunks(of: Callable[[Any], Tensor], problem: Problem, batch: Any) -> Tensor:
    return torch.cat([of(part) for part in chunks(batch, pass_length(problem, batch))])


def with_sample_losses(problem: Problem) -> SampleWeighting:
    """Return the problem, or refuse one that has no weight per labelled sample."""
    if not isinstance(problem, SampleWeighting):
        raise InputError(
            f"the problem {type(problem).__name__} has no losses of single samples; this method "
            "needs a problem with a weight per labelled sample"
        )
    return problem
