"""Clean only: train on the server's clean samples alone; a label is suspect where it disagrees.

The control of every method here: what the clean set is worth by itself. All of it is round 0; later
rounds neither change nor exchange anything.

    S      = argmin_s Σ_f ℓ(y_f,s; fold f)      y_f,s: s steps from y_0 on the folds other than f
    y      = S steps from y_0 on all of D_val                                   at the server
    weight = p(label) / (p(label) + the largest other p)                        at client m

S is a multiple of T (`local_steps`), at most `clean_steps`; the folds stop early once the loss has
not fallen for ``PATIENCE`` multiples. No label of a client is trained on, and nothing but the
number of its samples goes up. A client that misses round 0 keeps its weights at 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedsift.algorithms.clean_set import fit
from fedsift.algorithms.fedavg import LocalKeys, local_of
from fedsift.algorithms.method import Method
from fedsift.algorithms.state import RoundInfo, Server, ServerState
from fedsift.errors import ConfigError
from fedsift.keys import BuildContext, Keys, Settings, key
from fedsift.messages import Cohort, Federation, Request
from fedsift.problem.sample_losses import sample_losses
from fedsift.problem.sgd import LocalSteps
from fedsift.randomness import generator

FOLDS = 5  # each model is then trained on four fifths: nearly as much as the last one
PATIENCE = 20  # measurements of a noisy loss without a new best; 100 steps at the default T
NAME = "the model of the clean set"


@dataclass(frozen=True)
class CleanOnly:
    """One exchange in round 0, none later; ``limit`` is the largest number of steps."""

    local: LocalSteps = LocalSteps()
    limit: int = 2000

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k: everything is done in round 0."""
        if k > 0:
            return RoundInfo(), state
        steps, loss = self.choose(server, state.y)
        source = generator(server.seed, "clean batches")
        local = replace(self.local, steps=steps)
        y = fit(server, state.y, server.validation, local, source, NAME)
        everyone = Cohort(federation, tuple(sorted(federation.sizes)), server.min_clients)
        answers = everyone.ask(Request("agree", k, {"y": y}))
        metrics = {"clean_steps": steps, "clean_loss": loss}
        return RoundInfo(metrics, answers.events), ServerState(y, state.x, state.solver)

    def choose(self, server: Server, y: Tensor) -> tuple[int, float]:
        """Return the steps of lowest loss on clean samples not trained on, and that loss."""
        folds = _open_folds(server, y)
        losses: list[float] = []
        for _ in range(max(1, self.limit // self.local.steps)):
            folds = [
                replace(f, y=fit(server, f.y, f.part, self.local, f.source, NAME)) for f in folds
            ]
            losses.append(_mean_loss(server, folds))
            best = losses.index(min(losses)) + 1
            if len(losses) >= best + PATIENCE:
                break
        return best * self.local.steps, losses[best - 1]


@dataclass(frozen=True)
class Fold:
    """A model that has not seen the samples it is measured on."""

    part: Any
    held: Any
    source: torch.Generator
    y: Tensor


def _open_folds(server: Server, y: Tensor) -> list[Fold]:
    """Cut the clean samples into parts of nearly equal length, at random."""
    n = len(server.validation)
    if n < 2:
        raise ConfigError(
            f"the validation set has {n} samples, too few to train a model on some and measure it "
            "on others; give a larger one"
        )
    order = torch.randperm(n, generator=generator(server.seed, "clean folds"))
    cuts = order.tensor_split(min(FOLDS, n))
    return [
        Fold(
            server.validation.take(torch.cat([*cuts[:f], *cuts[f + 1 :]])),
            server.validation.take(held),
            generator(server.seed, "clean fold", f),
            y,
        )
        for f, held in enumerate(cuts)
    ]


def _mean_loss(server: Server, folds: list[Fold]) -> float:
    """Return the mean loss over all clean samples, each by the model that has not seen it."""
    losses = [sample_losses(server.problem, fold.y, fold.held) for fold in folds]
    return float(torch.cat(losses).mean())


@dataclass(frozen=True)
class CleanOnlyKeys(Keys):
    """How long the model of the clean set is trained."""

    table: ClassVar[str] = "inner"
    clean_steps: int = key(
        2000,
        "at most this many steps on the validation set, by cross-validation, all in round 1",
        low=1,
    )


def build(settings: Settings, context: BuildContext) -> CleanOnly:  # noqa: ARG001
    """Build it from its keys."""
    return CleanOnly(local_of(settings), settings[CleanOnlyKeys].clean_steps)


METHOD = Method(
    "the clean set alone; a label is suspect where its model predicts another class",
    (LocalKeys, CleanOnlyKeys),
    build,
    learns_weights=True,
    asks="^agree",
)
