"""Gold loss correction (Hendrycks et al., 2018): the clean samples give the noise matrix.

    rounds 1..R    FedAvg on the labels as they are: its model ŷ predicts labels, wrong ones too
    M[c, j]      = mean of p_j(ŷ; x) over the clean samples of class c        at the server, once
    from R + 1     y starts again where it was before round 1, and takes local steps on

                   −log Σ_c p_c M[c, label]      at client m
                   −log p_label                  at the server, whose clean set is one more client

    weight       = p_l M[l, l] / Σ_c p_c M[c, l],  l being the label: P(the label is right)

The paper trains the first model to its end and the second from scratch; here R rounds
(`glc_rounds`) are the first model's, and both start from the head start. Before round R + 1 all
weights are 1. A class without a clean sample has the row of a class without noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from fedsift.algorithms.additions.head_start import HeadStartKeys
from fedsift.algorithms.bilevel import with_head_start
from fedsift.algorithms.clean_client import with_clean_client
from fedsift.algorithms.fedavg import LocalKeys, draw_cohort, local_of, next_y, train_round
from fedsift.algorithms.method import Method
from fedsift.algorithms.state import Algorithm, RoundInfo, Server, ServerState
from fedsift.keys import BuildContext, Keys, Settings, key
from fedsift.messages import Federation, Request, scalars_of
from fedsift.problem.sample_losses import probabilities
from fedsift.problem.sgd import LocalSteps


@dataclass(frozen=True)
class GoldLossCorrection:
    """One exchange per round; ``first`` is R, the rounds of the model that predicts labels."""

    local: LocalSteps = LocalSteps()
    first: int = 10

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        if k == 0:
            state = replace(state, own={"start": state.y})
        cohort = draw_cohort(federation, server, k)
        if k < self.first:
            answers, y = train_round(cohort, state, self.local, k)
            info = RoundInfo({"train_loss": answers.mean_scalar("loss")}, answers.events)
            return info, replace(state, y=y)
        if k == self.first:
            matrix = corruption_matrix(server, state.y)
            state = replace(state, y=state.own["start"], own={"matrix": matrix})
        matrix = state.own["matrix"]
        arrays = {"y": state.y, "matrix": matrix}
        answers = cohort.ask(Request("train-corrected", k, arrays, scalars_of(self.local)))
        loss = answers.mean_scalar("loss")
        answers = with_clean_client(server, answers, state.y, self.local, k)
        y = next_y(state, answers, self.local, k)
        metrics = {"train_loss": loss, "kept_labels": float(matrix.diagonal().mean())}
        return RoundInfo(metrics, answers.events), replace(state, y=y)


def corruption_matrix(server: Server, y: Tensor) -> Tensor:
    """Return M: the mean probabilities of the clean samples of each class."""
    p, labels = probabilities(server.problem, y, server.validation), server.validation.labels
    counts = labels.bincount(minlength=p.shape[1])
    sums = p.new_zeros(p.shape[1], p.shape[1]).index_add_(0, labels, p)
    means = sums / counts.clamp(min=1)[:, None].to(p.dtype)
    return torch.where(counts[:, None] > 0, means, torch.eye(p.shape[1]).to(p))


@dataclass(frozen=True)
class GlcKeys(Keys):
    """The model that predicts labels."""

    table: ClassVar[str] = "inner"
    glc_rounds: int = key(
        20, "rounds of training on the labels as they are, for the noise matrix", low=1
    )


def build(settings: Settings, context: BuildContext) -> Algorithm:  # noqa: ARG001
    """Build it from its keys."""
    algorithm = GoldLossCorrection(local_of(settings), settings[GlcKeys].glc_rounds)
    return with_head_start(settings, algorithm)


METHOD = Method(
    "gold loss correction: a noise matrix from the clean set, then the corrected loss",
    (LocalKeys, HeadStartKeys, GlcKeys),
    build,
    learns_weights=True,
    asks="train train-corrected",
)
