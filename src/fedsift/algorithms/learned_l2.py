"""L2 of linear heads as the outer variable x = log ω, by the hypergradient of the judged loss.

    F(W)      = mean over clean i of ℓ(W_k; i), k being the fold of i: W_k was not trained on it
    dF/dx     = −ω Σ_k ⟨v_k, W_k P⟩,        (H_k + ω P) v_k = ∂F/∂W_k
    H_k V     = Σ_i [p_i ∘ V a_i − p_i ⟨p_i, V a_i⟩] a_iᵀ / n
    v_k      ← v_k − γ ((H_k + ω P) v_k − ∂F/∂W_k)       T times between two moves of x
    x        ← x − (dF/dx) / √(Σ of all squares of dF/dx so far)

| symbol | in code    | meaning                                                            |
|--------|------------|--------------------------------------------------------------------|
| ω      | `value`    | the coefficient of ½‖W P‖² in the heads' loss                      |
| P      |            | drops the intercept, which L2 leaves alone                         |
| a_i    | `features` | features of clean sample i, centred, and 1                         |
| p_i    |            | probabilities of sample i under W_k                                |
| v      | `v`        | kept between moves: it is stepped as often as the heads are, with  |
|        |            | the same γ, so it is the derivative of as many steps as were taken |

The Hessian of softmax heads depends on features and probabilities, not on labels: the server's
clean samples give that of the sites' loss, and nothing is added to the exchange.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from fedsift.problem.linear_head import logits
from fedsift.problem.sgd import LocalSteps


@dataclass(frozen=True, eq=False)
class LearnedL2:
    """ω, the sum of squares of dF/dx so far, and v [K, C, D + 1]."""

    value: float
    squares: float
    v: Tensor

    @classmethod
    def start(cls, value: float, heads: Tensor) -> LearnedL2:
        """Start at ω with v = 0."""
        return cls(value, 0.0, torch.zeros_like(heads))

    @classmethod
    def of(cls, arrays: Mapping[str, Tensor]) -> LearnedL2:
        """Read it from a server's state."""
        return cls(float(arrays["l2"]), float(arrays["l2_squares"]), arrays["l2_v"])

    def arrays(self) -> dict[str, Tensor]:
        """Return it as a part of a server's state."""
        numbers = {"l2": self.value, "l2_squares": self.squares}
        return {n: torch.tensor(v, dtype=torch.float64) for n, v in numbers.items()} | {
            "l2_v": self.v
        }

    def moved(
        self, heads: Tensor, features: Tensor, labels: Tensor, folds: Tensor, local: LocalSteps
    ) -> LearnedL2:
        """Step v, then x, at heads [K, C, D + 1]."""
        p = logits(heads, features).softmax(dim=2)
        right, v = judged_gradient(p, features, labels, folds), self.v
        for _ in range(local.steps):
            product = curvature(p, features, v) + self.value * without_intercept(v)
            v = v - local.lr * (product - right)
        slope = -self.value * float((v * without_intercept(heads)).sum())
        squares = self.squares + slope**2
        if not squares > 0:
            return replace(self, v=v)
        change = math.exp(-slope / squares**0.5)
        # beyond 1/γ a step of this length would no longer go down
        return LearnedL2(min(self.value * change, 1 / local.lr), squares, v)


def judged_gradient(p: Tensor, features: Tensor, labels: Tensor, folds: Tensor) -> Tensor:
    """Return ∂F/∂W [K, C, D + 1] from probabilities [n, K, C] under all heads."""
    own = one_hot(folds, p.shape[1]).to(p)[:, :, None]
    residuals = (p - one_hot(labels, p.shape[2]).to(p)[:, None]) * own / len(p)
    return (residuals.flatten(1).mT @ features).view(*p.shape[1:], -1)


def curvature(p: Tensor, features: Tensor, v: Tensor) -> Tensor:
    """Return H V of every head, without L2."""
    u = logits(v, features)
    q = p * (u - (p * u).sum(dim=2, keepdim=True)) / len(p)
    return (q.flatten(1).mT @ features).view_as(v)


def without_intercept(heads: Tensor) -> Tensor:
    """Return W P."""
    return torch.cat([heads[..., :-1], torch.zeros_like(heads[..., -1:])], dim=-1)
