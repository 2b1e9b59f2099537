"""FedAvg: local steps from y_k, then the N_m-weighted mean (lines 3-10 of Algorithm 1).

    y^m_t+1 = y^m_t − γ ∇_y g_m(x_k, y^m_t; batch)            at client m, t = 1..T
    y_k+1   = y_k + Σ_m (N_m / Σ N) (y^m_T − y_k)             at the server

`oracle` is FedAvg on clients that hold only their correctly labelled samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedsift.algorithms.additions.head_start import NoHeadStartKeys, ahead
from fedsift.algorithms.method import Method
from fedsift.algorithms.state import Algorithm, RoundInfo, Server, ServerState
from fedsift.errors import Diverged
from fedsift.keys import Auto, BuildContext, Keys, Settings, key, number
from fedsift.messages import Answers, Cohort, Federation, Request, sample_cohort, scalars_of
from fedsift.problem.sgd import LocalSteps


@dataclass(frozen=True)
class FedAvg:
    """Algorithm 1 without its outer step."""

    local: LocalSteps = LocalSteps()

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        cohort = draw_cohort(federation, server, k)
        answers, y = train_round(cohort, state, self.local, k)
        info = RoundInfo({"train_loss": answers.mean_scalar("loss")}, answers.events)
        return info, ServerState(y, state.x, state.solver)


def draw_cohort(federation: Federation, server: Server, k: int) -> Cohort:
    """Draw the clients of round k."""
    return sample_cohort(federation, server.cohort, server.min_clients, server.seed, k, "cohort")


def train_round(
    cohort: Cohort, state: ServerState, local: LocalSteps, k: int
) -> tuple[Answers, Tensor]:
    """Send y_k, let the cohort train, return its replies and y_k+1."""
    arrays = {"y": state.y} if state.x is None else {"y": state.y, "x": state.x}
    answers = cohort.ask(Request("train", k, arrays, scalars_of(local)))
    return answers, next_y(state, answers, local, k)


def next_y(
    state: ServerState, answers: Answers, local: LocalSteps, k: int, name: str = "update"
) -> Tensor:
    """Return y_k+1 = y_k + the mean update, or stop the run where it is not finite."""
    y = state.y + answers.mean(name)
    if not bool(torch.isfinite(y).all()):
        raise Diverged(
            f"the model is no longer finite after round {k + 1}; lower inner_lr (now {local.lr:g})"
        )
    return y


@dataclass(frozen=True)
class BatchKeys(Keys):
    """The local steps of a method that finds their size by itself."""

    table: ClassVar[str] = "inner"
    local_steps: int = key(5, "local steps T per round", low=1)
    batch_size: int = key(64, "samples per local step; 0: all", low=0)


@dataclass(frozen=True)
class LocalKeys(BatchKeys):
    """The local steps of all others."""

    inner_lr: Auto = key(
        "auto",
        "inner step size γ; auto: by curvature and a trial on the clean set",
        low=0,
        open_low=True,
    )


def local_of(settings: Settings) -> LocalSteps:
    """Return the local steps that the keys describe."""
    own = settings[LocalKeys]
    return LocalSteps(own.local_steps, number(own.inner_lr), own.batch_size)


def perhaps_ahead(settings: Settings, algorithm: Algorithm) -> Algorithm:
    """Return the algorithm, with a head start where one is asked for."""
    return ahead(algorithm, local_of(settings), settings[NoHeadStartKeys].head_start)


def build(settings: Settings, context: BuildContext) -> Algorithm:  # noqa: ARG001
    """Build FedAvg from its keys."""
    return perhaps_ahead(settings, FedAvg(local_of(settings)))


PLAIN: tuple[type[Keys], ...] = (LocalKeys, NoHeadStartKeys)
FEDAVG = Method(
    "plain federated averaging on the labels as they are", PLAIN, build, means_only=True
)
ORACLE = Method(
    "federated averaging on the correctly labelled samples only",
    PLAIN,
    build,
    needs_truth=True,
    means_only=True,
)
