"""Self-paced settling of weights (ours): the model's predictions replace the falling outer step.

    η_k = η_0 − τ (η_0 − η_0 / max(1, k / decay_after)),      τ = max(0, 1 − 10 e)
    x  += 2 c (η_0 − η_k) (t(a) − x)

| symbol | here           | meaning                                                           |
|--------|----------------|-------------------------------------------------------------------|
| e      |                | the model's share of errors on the clean validation set           |
| τ      | `trust`        | how far the model can be trusted                                  |
| a      | `agreement`    | how far the model agrees with a label, the mean over rounds       |
| t(a)   | `target`       | the weight that this agreement would give the sample              |
| c      | `strength`     | 0: the step falls with k alone (τ = 1), and nothing is pulled     |

With a constant step the weights follow the noise of a small validation set. Here the hypergradient
moves the weights until the model is good, however many rounds that takes; then the model's own
predictions settle them: a step of self-paced learning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedsift.algorithms.additions.constants import ERRORS_UNTRUSTED, NEUTRAL
from fedsift.algorithms.outer_step import Move, OuterStep
from fedsift.algorithms.state import Server
from fedsift.keys import Keys, key
from fedsift.problem import SampleWeighting
from fedsift.problem.sample_losses import label_agreement, label_share


@dataclass(frozen=True)
class SelfPaced:
    """An outer step that falls like 1/k after ``decay_after`` rounds, as far as trust allows."""

    outer: OuterStep
    decay_after: int
    strength: float = 1.0

    def at_round(self, server: Server, y: Tensor, k: int, outputs: Tensor | None = None) -> Move:
        """Return the step of round k at the model y."""
        return self.at(k, trust(server, y, outputs) if self.strength else 1.0)

    def at(self, k: int, trusted: float = 1.0) -> Move:
        """Return the step of round k with a model of this trust τ."""
        lr = self.outer.lr
        slower = max(1.0, (k + 1) / self.decay_after)
        given_up = trusted * (lr - lr / slower)
        return Move(lr - given_up, self.outer.rule, self.strength * given_up, self.outer.mean)


@torch.no_grad()
def trust(server: Server, y: Tensor, outputs: Tensor | None = None) -> float:
    """Return τ = max(0, 1 − 10 e), e being the share of clean samples that the model gets wrong.

    1 for a problem without labels. ``outputs`` of the clean samples at y save a pass over them.
    """
    problem, validation = server.problem, server.validation
    if not isinstance(problem, SampleWeighting):
        return 1.0
    if outputs is None:
        agreement = label_share(problem, y, validation)
    else:
        agreement = label_agreement(outputs, validation.labels)
    return max(0.0, 1.0 - ERRORS_UNTRUSTED * float((agreement < 0.5).to(y.dtype).mean()))


def target(agreement: Tensor) -> Tensor:
    """Return t(a): 0 at a = 0, ½ at a = ¼, 1 at a = 1, linear in between."""
    return torch.where(
        agreement < NEUTRAL,
        agreement / (2 * NEUTRAL),
        (agreement + 1 - 2 * NEUTRAL) / (2 - 2 * NEUTRAL),
    )


def pull(x: Tensor, agreement: Tensor, pace: float) -> Tensor:
    """Return what to add to the weights because of the model's agreement with their labels."""
    return 2 * pace * (target(agreement) - x)


@dataclass(frozen=True)
class SelfPacedKeys(Keys):
    """The falling outer step and the pull."""

    table: ClassVar[str] = "outer"
    outer_decay: int = key(
        10,
        "rounds after which the outer step falls like 1/k, as far as the model is trusted; "
        "0 disables decay and self_paced",
        low=0,
    )
    self_paced: float = key(
        1.0,
        "c: how strongly the model's own predictions move the weights as the outer step falls; "
        "0: off",
        low=0,
    )
