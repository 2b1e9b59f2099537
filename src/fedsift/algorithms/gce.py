"""Generalised cross-entropy (Zhang and Sabuncu, 2018): FedAvg with a loss that is bounded.

    ℓ_i    = (1 − p_label^q) / q         q = 0.7; → cross-entropy for q → 0, absolute error for 1
    weight = p(label) / (p(label) + the largest other p)        with the y_k that was sent

The gradient is p_label^q times cross-entropy's, so a label that the model finds improbable counts
little: a model that starts from chance, where all are improbable, learns slowly. The clean set is
used by the head start only. The paper's truncated loss, which drops labels, is not done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fedsift.algorithms.additions.head_start import HeadStartKeys
from fedsift.algorithms.bilevel import with_head_start
from fedsift.algorithms.fedavg import LocalKeys, draw_cohort, local_of, next_y
from fedsift.algorithms.method import Method
from fedsift.algorithms.state import Algorithm, RoundInfo, Server, ServerState
from fedsift.keys import BuildContext, Keys, Settings, key
from fedsift.messages import Federation, Request, scalar, scalars_of
from fedsift.problem.sgd import LocalSteps


@dataclass(frozen=True)
class Order:
    """q of the loss."""

    q: float = scalar("gce_q", 0.7)


@dataclass(frozen=True)
class GeneralisedCrossEntropy:
    """One exchange per round."""

    local: LocalSteps = LocalSteps()
    order: Order = Order()

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        cohort = draw_cohort(federation, server, k)
        scalars = scalars_of(self.local, self.order)
        answers = cohort.ask(Request("train-robust", k, {"y": state.y}, scalars))
        y = next_y(state, answers, self.local, k)
        info = RoundInfo({"train_loss": answers.mean_scalar("loss")}, answers.events)
        return info, replace(state, y=y)


@dataclass(frozen=True)
class GceKeys(Keys):
    """The loss."""

    table: ClassVar[str] = "inner"
    gce_q: float = key(
        0.7,
        "q of the loss (1 − p^q) / q of generalised cross-entropy",
        low=0,
        high=1,
        open_low=True,
    )


def build(settings: Settings, context: BuildContext) -> Algorithm:  # noqa: ARG001
    """Build it from its keys."""
    algorithm = GeneralisedCrossEntropy(local_of(settings), Order(settings[GceKeys].gce_q))
    return with_head_start(settings, algorithm)


METHOD = Method(
    "FedAvg with generalised cross-entropy, a loss that improbable labels hardly move",
    (LocalKeys, HeadStartKeys, GceKeys),
    build,
    learns_weights=True,
    means_only=True,
    asks="train-robust",
)
