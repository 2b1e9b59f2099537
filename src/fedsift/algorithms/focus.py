"""FOCUS (Chen et al., 2020): FedAvg with clients weighed by their credibility.

    E_m   = ℓ(y_k; D_m) + ℓ(y^m_T; D_val)                  mutual cross-entropy
    C_m   = 1 − exp(α E_m) / Σ_j exp(α E_j)                credibility
    y_k+1 = y_k + Σ_m (N_m C_m / Σ_j N_j C_j) (y^m_T − y_k)

The first loss is the client's own: that of the model it was sent on all its samples, which comes
back with the update. The second is the server's. A round is one exchange, as in FedAvg.

α = 0 is FedAvg on the cohort. A cohort of one client has C = 0, which would leave no weight at all;
the round is then FedAvg's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from fedsift.algorithms.fedavg import PLAIN, draw_cohort, local_of, next_y, perhaps_ahead
from fedsift.algorithms.method import Method
from fedsift.algorithms.state import Algorithm, RoundInfo, Server, ServerState
from fedsift.keys import BuildContext, Keys, Settings, key
from fedsift.messages import Answers, Federation, Request, scalars_of
from fedsift.problem.sample_losses import sample_losses
from fedsift.problem.sgd import LocalSteps


@dataclass(frozen=True)
class Focus:
    """One exchange per round; ``alpha`` is how sharply credibility falls with the losses."""

    local: LocalSteps = LocalSteps()
    alpha: float = 1.0

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        # Step 1: local steps, and every client's own loss of y_k.
        cohort = draw_cohort(federation, server, k)
        answers = cohort.ask(Request("assess", k, {"y": state.y}, scalars_of(self.local)))

        # Step 2: the local models on the server's clean samples.
        own, clean = answers.numbers("own_loss"), _clean_losses(server, state, answers)
        losses = [a + b for a, b in zip(own, clean, strict=True)]
        trust = credibility(torch.tensor(losses, dtype=torch.float64), self.alpha)

        # Step 3: the mean that credibility weighs.
        y = next_y(state, _weighed(answers, trust), self.local, k)
        metrics = {
            "train_loss": answers.mean_scalar("loss"),
            "credibility_min": float(trust.min()),
            "credibility_max": float(trust.max()),
        }
        return RoundInfo(metrics, answers.events), ServerState(y, state.x, state.solver)


def credibility(losses: Tensor, alpha: float) -> Tensor:
    """Return C_m = 1 − exp(α E_m) / Σ_j exp(α E_j)."""
    return 1.0 - torch.softmax(alpha * losses, dim=0)  # softmax shifts by the maximum first


def _clean_losses(server: Server, state: ServerState, answers: Answers) -> list[float]:
    models = (state.y + u for u in answers.payloads("update") if isinstance(u, Tensor))
    return [float(sample_losses(server.problem, y, server.validation).mean()) for y in models]


def _weighed(answers: Answers, trust: Tensor) -> Answers:
    if len(answers.replies) == 1:
        return answers
    weights = [r.num_samples * c for r, c in zip(answers.replies, trust.tolist(), strict=True)]
    return replace(answers, weights=tuple(weights))


@dataclass(frozen=True)
class FocusKeys(Keys):
    """The credibility of FOCUS."""

    table: ClassVar[str] = "outer"
    focus_alpha: float = key(1.0, "α: how fast a client's credibility falls with its loss", low=0)


def build(settings: Settings, context: BuildContext) -> Algorithm:  # noqa: ARG001
    """Build it from its keys."""
    focus = Focus(local_of(settings), settings[FocusKeys].focus_alpha)
    return perhaps_ahead(settings, focus)


METHOD = Method(
    "FedAvg with clients weighed by their credibility", (*PLAIN, FocusKeys), build, asks="assess"
)
