"""Bootstrapping of down-weighted labels (ours, beyond the paper).

    λ_j ℓ_j + κ (1 − λ_j) ℓ'_j           ℓ'_j: the loss with the class that the model predicts

What a label loses in weight goes to the predicted class, as in the hard bootstrapping of Reed et
al. (2015), but with λ learned: a sample with a wrong label is still a sample. The predicted class
is a constant to every derivative. κ = 0 is the paper's loss.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cross_entropy


def redirected_losses(weights: Tensor, outputs: Tensor, share: float) -> Tensor:
    """Return κ (1 − λ_j) ℓ'_j per sample; ``share`` is κ."""
    predicted = cross_entropy(outputs, outputs.argmax(dim=1), reduction="none")
    return share * (1 - weights) * predicted


def sample_scores(outputs: Tensor, along: Tensor, labels: Tensor, share: float) -> Tensor:
    """Return ⟨∇ℓ_j − κ ∇ℓ'_j, v⟩ = ((1 − κ) p_j − e_j + κ e'_j)·(J v)_j; ``along`` is J v."""
    at, own = labels[:, None], outputs.argmax(dim=1, keepdim=True)
    scores = share * along.gather(1, own) - along.gather(1, at)
    if share != 1:
        expected = (outputs.softmax(dim=1) * along).sum(dim=1, keepdim=True)
        scores = scores + (1 - share) * expected
    return scores.squeeze(1)
