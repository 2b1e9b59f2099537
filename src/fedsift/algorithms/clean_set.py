"""What the server can do with its clean samples alone, without a byte sent.

``HeadStart`` (ours) takes steps on half of the validation set before round 0; the other half says
when to stop. On noisy labels a new model needs tens of rounds until its hypergradient means
anything, with a head start a few. Only y_0 comes from it: the problem stays the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedsift.algorithms.fedavg import LocalSteps, local_of, local_sgd
from fedsift.algorithms.state import Algorithm, RoundInfo, Server, ServerState
from fedsift.errors import ConfigError, RunError
from fedsift.keys import Keys, Settings, key
from fedsift.messages import Federation
from fedsift.problem.sample_losses import sample_losses
from fedsift.randomness import generator

SHARE = 0.5
EVERY, PATIENCE = 10, 5  # steps between two looks at the loss; looks without a new best


@dataclass(frozen=True)
class HeadStart:
    """Another algorithm from a better y_0: at most ``local.steps`` steps before its round 0."""

    algorithm: Algorithm
    local: LocalSteps

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        if k > 0:
            return self.algorithm.round(federation, server, state, k)
        y, metrics = self.take(server, state.y)
        info, state = self.algorithm.round(federation, server, replace(state, y=y), k)
        return RoundInfo({**info.metrics, **metrics}, info.events), state

    def take(self, server: Server, y: Tensor) -> tuple[Tensor, dict[str, float]]:
        """Return the y of least loss on the half that it is not trained on, and that loss."""
        part, rest = split_validation(server, SHARE, "head start")
        source = generator(server.seed, "head start batches")
        best, lowest, best_at, done = y, _loss(server, y, rest), 0, 0
        while done < min(self.local.steps, best_at + EVERY * PATIENCE):
            local = replace(self.local, steps=min(EVERY, self.local.steps - done))
            y = fit(server, y, part, local, source, "the head start")
            done += local.steps
            if (loss := _loss(server, y, rest)) < lowest:
                best, lowest, best_at = y, loss, done
        return best, {"head_start_steps": best_at, "head_start_loss": lowest}


def split_validation(server: Server, share: float, purpose: str) -> tuple[Any, Any]:
    """Split the validation set at random, to train on ``share`` of it and measure on the rest."""
    n = len(server.validation)
    cut = int(share * n)
    if not 0 < cut < n:
        raise ConfigError(
            f"the validation set has {n} samples, too few to train a {purpose} model on some and "
            "measure it on others; give a larger one"
        )
    order = torch.randperm(n, generator=generator(server.seed, f"{purpose} split"))
    return server.validation.take(order[:cut]), server.validation.take(order[cut:])


def fit(
    server: Server, y: Tensor, part: Any, local: LocalSteps, source: torch.Generator, what: str
) -> Tensor:
    """Take local steps from y on clean samples, each of weight 1."""
    trust = torch.ones_like(server.problem.initial_x(server.validation))
    y = local_sgd(server.problem, trust, y, part, local, source).y
    if not bool(torch.isfinite(y).all()):
        raise RunError(f"{what} is not finite; lower inner_lr (now {local.lr:g})")
    return y


def _loss(server: Server, y: Tensor, part: Any) -> float:
    return float(sample_losses(server.problem, y, part).mean())


@dataclass(frozen=True)
class HeadStartKeys(Keys):
    """The head start of the bilevel methods."""

    table: ClassVar[str] = "inner"
    head_start: int = key(
        500,
        "at most this many steps on half of the validation set before round 1; 0: off",
        low=0,
    )


def with_head_start(settings: Settings, algorithm: Algorithm) -> Algorithm:
    """Return the algorithm with the head start that the keys describe, if any."""
    steps = settings[HeadStartKeys].head_start
    return HeadStart(algorithm, replace(local_of(settings), steps=steps)) if steps else algorithm
