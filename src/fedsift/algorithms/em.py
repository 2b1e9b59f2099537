"""EM with a class-conditional noise matrix: self-training that starts from the clean set.

y_0 is the head start's, a model of the clean set; M is flat at first: nothing is known of the
noise. Round k, with M[c, j] the probability that a sample of class c has the label j:

    E    q_ic ∝ p_c(y_k; x_i) M_k[c, label_i]                       at client m
    M    M_k+1[c, j] ∝ 1 + Σ_m Σ_i q_ic 1[label_i = j]              from C x C sums
    M    y_k+1: local steps on −Σ_c q_ic log p_c, the clean set with its labels as one more client

    weight = q of the label: P(the label is right)

The 1 is Laplace's: a cell without a sample is not impossible. One exchange per round does both M
steps, so M is of the round before; a textbook EM would train y to the end between two E steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedsift.algorithms.additions.head_start import HeadStartKeys
from fedsift.algorithms.bilevel import with_head_start
from fedsift.algorithms.clean_client import with_clean_client
from fedsift.algorithms.fedavg import LocalKeys, draw_cohort, local_of, next_y
from fedsift.algorithms.method import Method
from fedsift.algorithms.state import Algorithm, RoundInfo, Server, ServerState
from fedsift.keys import BuildContext, Settings
from fedsift.messages import Federation, Request, scalars_of
from fedsift.problem.robust_losses import normalised
from fedsift.problem.sample_losses import with_sample_losses
from fedsift.problem.sgd import LocalSteps


@dataclass(frozen=True)
class SelfTraining:
    """One exchange per round."""

    local: LocalSteps = LocalSteps()

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        matrix = state.own["matrix"] if "matrix" in state.own else flat_matrix(server, state.y)
        cohort = draw_cohort(federation, server, k)
        arrays = {"y": state.y, "matrix": matrix}
        answers = cohort.ask(Request("train-soft", k, arrays, scalars_of(self.local)))
        metrics = {
            "train_loss": answers.mean_scalar("loss"),
            "kept_labels": float(matrix.diagonal().mean()),
        }
        sums = [s for s in answers.payloads("sums") if isinstance(s, Tensor)]
        matrix = normalised(torch.stack(sums).sum(dim=0), torch.ones_like(matrix))
        answers = with_clean_client(server, answers, state.y, self.local, k)
        y = next_y(state, answers, self.local, k)
        return RoundInfo(metrics, answers.events), replace(state, y=y, own={"matrix": matrix})


def flat_matrix(server: Server, y: Tensor) -> Tensor:
    """Return the matrix that says nothing: every label is as probable in every class."""
    problem, one = with_sample_losses(server.problem), server.validation.take(torch.tensor([0]))
    with torch.no_grad():
        classes = problem.outputs(y, one).shape[1]
    return y.new_full((classes, classes), 1 / classes)


def build(settings: Settings, context: BuildContext) -> Algorithm:  # noqa: ARG001
    """Build it from its keys."""
    return with_head_start(settings, SelfTraining(local_of(settings)))


METHOD = Method(
    "self-training from the clean set by EM, with one noise matrix for all sites",
    (LocalKeys, HeadStartKeys),
    build,
    learns_weights=True,
    asks="train-soft",
)
