"""A head start on the clean set (ours): steps at the server before round 0, without a byte sent.

Half of the validation set is trained on; the other half decides when to stop. On noisy labels a new
model needs tens of rounds until its hypergradient carries information; with a head start, a few.
Only y_0 comes from it: the problem stays the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import Tensor

from fedsift.algorithms.additions.constants import (
    HEAD_START_EVERY,
    HEAD_START_PATIENCE,
    HEAD_START_SHARE,
)
from fedsift.algorithms.clean_set import fit, split_validation
from fedsift.algorithms.state import Algorithm, RoundInfo, Server, ServerState
from fedsift.keys import Keys, key
from fedsift.messages import Federation
from fedsift.problem.sample_losses import sample_losses
from fedsift.problem.sgd import LocalSteps
from fedsift.randomness import generator


@dataclass(frozen=True)
class HeadStart:
    """An algorithm from a better y_0: at most ``local.steps`` steps before its round 0."""

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
        """Return the y with the lowest loss on the half not trained on, and that loss."""
        part, rest = split_validation(server, HEAD_START_SHARE, "head start")
        source = generator(server.seed, "head start batches")
        best, lowest, best_at, done = y, _loss(server, y, rest), 0, 0
        while done < min(self.local.steps, best_at + HEAD_START_EVERY * HEAD_START_PATIENCE):
            local = replace(self.local, steps=min(HEAD_START_EVERY, self.local.steps - done))
            y = fit(server, y, part, local, source, "the head start")
            done += local.steps
            if (loss := _loss(server, y, rest)) < lowest:
                best, lowest, best_at = y, loss, done
        return best, {"head_start_steps": best_at, "head_start_loss": lowest}


def _loss(server: Server, y: Tensor, part: Any) -> float:
    return float(sample_losses(server.problem, y, part).mean())


def ahead(algorithm: Algorithm, local: LocalSteps, steps: int) -> Algorithm:
    """Return the algorithm with a head start of at most this many steps; 0: without."""
    return HeadStart(algorithm, replace(local, steps=steps)) if steps else algorithm


TEXT = (
    "at most this many steps on half of the validation set before round 1; 0: off, the default of "
    "fedavg, oracle, focus, preprocess and disagreement"
)


@dataclass(frozen=True)
class HeadStartKeys(Keys):
    """The head start."""

    table: ClassVar[str] = "inner"
    head_start: int = key(500, TEXT, low=0)


@dataclass(frozen=True)
class NoHeadStartKeys(HeadStartKeys):
    """The same key where nobody has a head start unless it is asked for."""

    head_start: int = key(0, TEXT, low=0)
