"""Early-learning regularisation (Liu et al., 2020): FedAvg that holds on to its early predictions.

    t_i   ← β t_i + (1 − β) p(y_k; x_i)                    at client m, t_i = 0 before its first
    ℓ_i    = −log p_label + λ log(1 − ⟨p, t_i⟩)
    weight = t_label / (t_label + the largest other t)

The paper updates t_i whenever sample i is in a batch, about once a pass; here all t_i are updated
once a round, with the model that was sent. They stay at the client. The clean set is used by the
head start only. β = 0.7 and λ = 3 are the paper's for CIFAR-10.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from fedsift.algorithms.additions.head_start import HeadStartKeys
from fedsift.algorithms.bilevel import with_head_start
from fedsift.algorithms.fedavg import LocalKeys, draw_cohort, local_of, next_y
from fedsift.algorithms.method import Method
from fedsift.algorithms.state import Algorithm, RoundInfo, Server, ServerState
from fedsift.keys import BuildContext, Keys, Settings, key
from fedsift.messages import Federation, Request, scalar, scalars_of
from fedsift.problem.sgd import LocalSteps


@dataclass(frozen=True)
class EarlyLearning:
    """β and λ."""

    momentum: float = scalar("elr_momentum", 0.7)
    strength: float = scalar("elr_strength", 3.0)

    def updated(self, targets: Tensor | None, p: Tensor) -> Tensor:
        """Return β t + (1 − β) p."""
        new = (1 - self.momentum) * p
        return new if targets is None else self.momentum * targets + new


@dataclass(frozen=True)
class EarlyLearningRegularisation:
    """One exchange per round."""

    local: LocalSteps = LocalSteps()
    early: EarlyLearning = EarlyLearning()

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        cohort = draw_cohort(federation, server, k)
        scalars = scalars_of(self.local, self.early)
        answers = cohort.ask(Request("train-elr", k, {"y": state.y}, scalars))
        y = next_y(state, answers, self.local, k)
        info = RoundInfo({"train_loss": answers.mean_scalar("loss")}, answers.events)
        return info, replace(state, y=y)


@dataclass(frozen=True)
class ElrKeys(Keys):
    """The running targets."""

    table: ClassVar[str] = "inner"
    elr_momentum: float = key(0.7, "β: weight of the past in a running target", low=0, high=1)
    elr_strength: float = key(3.0, "λ: how strongly running targets hold the model", low=0)


def build(settings: Settings, context: BuildContext) -> Algorithm:  # noqa: ARG001
    """Build it from its keys."""
    own = settings[ElrKeys]
    early = EarlyLearning(own.elr_momentum, own.elr_strength)
    return with_head_start(settings, EarlyLearningRegularisation(local_of(settings), early))


METHOD = Method(
    "FedAvg with early-learning regularisation: it holds on to its early predictions",
    (LocalKeys, HeadStartKeys, ElrKeys),
    build,
    learns_weights=True,
    means_only=True,
    asks="train-elr",
)
