"""The server's own steps on the clean loss F, and which clean samples judge instead.

    w' = w − (γ T / λ S) ∇_y F(x, w; batch),      S times

| symbol | here       | meaning                                                          |
|--------|------------|------------------------------------------------------------------|
| γ, T   | `local`    | the sites' local steps on G                                      |
| S      | `steps`    | the server's steps in a round                                    |
| λ      | `penalty`  | T local steps and these S ones together go down G + F / λ        |
|        | `share`    | of the clean set that these steps train on; the rest judges      |
|        | `scored`   | samples that a site draws per round to move their x; 0: all      |

Nothing judges what it was fitted on: accuracy and loss of a round, and how far the model is trusted
(``additions.self_paced``), come from the clean samples that no step has seen. The head start trains
on the first half of the same order, so a share of at least ½ keeps them apart.
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedsift.algorithms.clean_set import split_validation
from fedsift.algorithms.outer_step import ScoredKeys
from fedsift.algorithms.state import Server
from fedsift.keys import Settings, key
from fedsift.problem import LabelledBatch, SampleWeighting
from fedsift.problem.sgd import LocalSteps, minibatches
from fedsift.randomness import generator

GLANCE = 128


@dataclass(frozen=True)
class Contrast:
    """λ of ∇h = ∇_x F + λ (∂_x G(z) − ∂_x G(y)), and on how many of a site's samples (0: all)."""

    penalty: float
    scored: int = 0


@dataclass(frozen=True, eq=False)
class Folds:
    """The clean samples that train, and those that judge; None where none do.

    ``judges`` are the latter's places in the clean set: the audit is calibrated on them.
    """

    part: Any
    rest: Any | None
    judges: Tensor | None = None

    @property
    def glance(self) -> Any:
        """A few of the samples that train: enough to see whether F falls."""
        few = isinstance(self.part, Sized) and len(self.part) > GLANCE
        return self.part.take(torch.arange(GLANCE)) if few else self.part

    @property
    def kept(self) -> dict[str, Tensor]:
        """What a method keeps of it for the audit."""
        return {} if self.judges is None else {"judges": self.judges}

    def judging(self, server: Server) -> Server:
        """Return the server with the samples that judge, or all where none do."""
        return server if self.rest is None else replace(server, validation=self.rest)


@dataclass(frozen=True)
class CleanSteps:
    """S steps on F per round."""

    steps: int = 5
    penalty: float = 1.0
    share: float = 0.5
    scored: int = 0

    @property
    def contrast(self) -> Contrast:
        """What a client needs of it."""
        return Contrast(self.penalty, self.scored)

    def folds(self, server: Server) -> Folds:
        """Split the clean set, in the order of the head start."""
        if self.share >= 1:
            return Folds(server.validation, None)
        part, rest = split_validation(server, self.share, "head start")
        if isinstance(rest, LabelledBatch):  # a clean set of its own: numbered from 0
            return Folds(part, LabelledBatch.of(rest.inputs, rest.labels), rest.positions)
        return Folds(part, rest)

    def take(
        self, server: Server, x: Tensor, y: Tensor, part: Any, local: LocalSteps, k: int
    ) -> Tensor:
        """Return y after the steps of round k."""
        n = len(part) if isinstance(part, Sized) else 0
        lr = local.lr * local.steps / (self.penalty * self.steps)
        own = LocalSteps(self.steps, lr, local.batch_size)
        for positions in minibatches(n, own, generator(server.seed, k, "clean steps"), y.device):
            batch = part if positions is None else part.take(positions)
            leaf = y.detach().requires_grad_(True)
            (gradient,) = torch.autograd.grad(server.problem.outer_loss(x, leaf, batch), leaf)
            y = leaf.detach() - lr * gradient
        return y


@torch.no_grad()
def outer_loss(server: Server, x: Tensor, y: Tensor, part: Any) -> float:
    """Return F(x, y) on these clean samples; infinite where it is no number."""
    loss = server.problem.outer_loss(x, y, part)
    return float(loss.nan_to_num(nan=torch.inf))


@torch.no_grad()
def judged(server: Server, x: Tensor, y: Tensor, folds: Folds) -> dict[str, float]:
    """Return loss and accuracy on the samples that judge; nothing where none do."""
    problem, rest = server.problem, folds.rest
    if rest is None:
        return {}
    if not isinstance(problem, SampleWeighting):
        return {"judged_loss": float(problem.outer_loss(x, y, rest))}
    logits = problem.outputs(y, rest)
    right = (logits.argmax(dim=1) == rest.labels).double().mean()
    return {
        "judged_accuracy": float(right),
        "judged_loss": float(cross_entropy(logits, rest.labels)),
    }


@dataclass(frozen=True)
class CleanStepKeys(ScoredKeys):
    """The server's steps on the clean set."""

    penalty: float = key(
        1.0,
        "λ: the server's steps weigh the clean loss by 1 / λ; larger: closer to the hypergradient, "
        "and slower",
        low=0,
        open_low=True,
    )
    server_steps: int = key(5, "the server's steps on the clean set per round", low=1)
    train_share: float = key(
        0.5,
        "share of the clean set that these steps train on; the rest judges; 1: all, none judges",
        low=0.5,
        high=1,
    )


def clean_steps_of(settings: Settings) -> CleanSteps:
    """Return the steps that the keys describe."""
    own = settings[CleanStepKeys]
    return CleanSteps(own.server_steps, own.penalty, own.train_share, own.scored)
