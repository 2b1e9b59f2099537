"""Disagreement: a label is suspect where FedAvg's best model predicts another class.

FedAvg overfits wrong labels in the end, but not at once. The model that judges is the y_k of lowest
F(y_k): the loss on the server's clean samples, on which FedAvg does not train.

    weight = p(label) / (p(label) + the largest other p)     at client m, with the y_k it was sent

The server sends F(y_k) along with y_k. A client remembers the loss of the model it last judged
with, and judges again when a lower one comes: no more exchanges and arrays than in FedAvg. With
cohorts, the judge is the best model among those that the client was sent. The model after the last
round has not been sent and does not judge.

The weights are for the audit only; training stays FedAvg's.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedsift.algorithms.fedavg import PLAIN, draw_cohort, local_of, next_y, perhaps_ahead
from fedsift.algorithms.method import Method
from fedsift.algorithms.state import Algorithm, RoundInfo, Server, ServerState
from fedsift.keys import BuildContext, Settings
from fedsift.messages import Federation, Request, scalars_of
from fedsift.problem.sample_losses import sample_losses
from fedsift.problem.sgd import LocalSteps


@dataclass(frozen=True)
class ValidationLoss:
    """F(y_k), sent along with y_k."""

    validation_loss: float


@dataclass(frozen=True)
class Disagreement:
    """FedAvg, whose clients record how far its best model agrees with their labels."""

    local: LocalSteps = LocalSteps()

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        cohort = draw_cohort(federation, server, k)
        loss = float(sample_losses(server.problem, state.y, server.validation).mean())
        scalars = scalars_of(self.local, ValidationLoss(loss))
        answers = cohort.ask(Request("judge", k, {"y": state.y}, scalars))
        y = next_y(state, answers, self.local, k)
        metrics = {
            "train_loss": answers.mean_scalar("loss"),
            "judged": sum(answers.numbers("judged")),  # clients
        }
        return RoundInfo(metrics, answers.events), ServerState(y, state.x, state.solver)


def build(settings: Settings, context: BuildContext) -> Algorithm:  # noqa: ARG001
    """Build it from its keys."""
    return perhaps_ahead(settings, Disagreement(local_of(settings)))


METHOD = Method(
    "FedAvg; a label is suspect where the best model predicts another class",
    PLAIN,
    build,
    learns_weights=True,
    asks="judge",
)
