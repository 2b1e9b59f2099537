"""FedCorr (Xu et al., 2022): find noisy clients by the dimension of predictions, and relabel.

    1  R rounds       all train; clients send the mean local intrinsic dimension of their
                      predictions, the server adds it up and splits the clients by two Gaussians.
                      From then on a noisy client, before it trains, splits its losses by two
                      Gaussians: n_w are in the upper group, and of the n_w / 2 highest losses those
                      with a prediction of p ≥ ½ get the predicted label. n_w / N_m goes up.
    2  R₂ rounds      only clients with n_w / N_m ≤ 0.1 train; all, if there is none
    3  from then on   noisy clients relabel once, all samples with p ≥ ½; then all train

    weight = 1 where a sample still has its own label, else 0

½, ½ and 0.1 are the paper's. Left out: mixup and the proximal term of its first stage, and its
passes over single clients; a round is one here, of all clients. Where one Gaussian explains the
dimensions better than two (BIC), all clients are noisy. Groups are asked one after the other: one
exchange per client. The clean set is used by the head start only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from fedsift.algorithms.additions.head_start import HeadStartKeys
from fedsift.algorithms.bilevel import with_head_start
from fedsift.algorithms.fedavg import LocalKeys, draw_cohort, local_of, next_y
from fedsift.algorithms.method import Method
from fedsift.algorithms.state import Algorithm, RoundInfo, Server, ServerState
from fedsift.keys import BuildContext, Keys, Settings, key
from fedsift.messages import Answers, Cohort, Federation, Request, scalar, scalars_of
from fedsift.problem.mixture import two_groups
from fedsift.problem.sgd import LocalSteps

CLEAN_LEVEL = 0.1
NONE, SOME, ALL = "none", "some", "all"  # what a client relabels


@dataclass(frozen=True)
class Relabelling:
    """Which samples a client relabels, and whether it measures the dimension of predictions."""

    which: str = scalar("relabels", NONE)
    measures: bool = scalar("measures_dimension", True)


@dataclass(frozen=True)
class LabelCorrection:
    """``first`` and ``finetuned`` are R and R₂."""

    local: LocalSteps = LocalSteps()
    first: int = 10
    finetuned: int = 5

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        own = state.own or _opening(federation)
        cohort = draw_cohort(federation, server, k)
        noisy = {int(m) for m in own["noisy"].nonzero()}
        if self.first <= k < self.first + self.finetuned:
            loud = {m for m in noisy if float(own["level"][m]) > CLEAN_LEVEL}
            quiet = tuple(m for m in cohort.clients if m not in loud)
            cohort = replace(cohort, clients=quiet or cohort.clients)
        answers = self._ask(cohort, state.y, noisy, k)
        y = next_y(state, answers, self.local, k)
        if k < self.first:
            own = measured(own, answers)
        metrics = {
            "train_loss": answers.mean_scalar("loss"),
            "relabelled": sum(answers.numbers("relabelled")),
            "noisy_clients": float(own["noisy"].sum()),
        }
        return RoundInfo(metrics, answers.events), replace(state, y=y, own=own)

    def _ask(self, cohort: Cohort, y: Tensor, noisy: set[int], k: int) -> Answers:
        """Ask the clients; those that relabel apart from those that do not."""
        last = k == self.first + self.finetuned
        which = SOME if k < self.first else ALL if last else NONE
        apart = noisy if which != NONE else set()
        replies = []
        for relabels in (NONE, which):
            group = [m for m in cohort.clients if (m in apart) == (relabels != NONE)]
            scalars = scalars_of(self.local, Relabelling(relabels, k < self.first))
            request = Request("train-relabelled", k, {"y": y}, scalars)
            replies += cohort.federation.ask(request, group) if group else []
            if which == NONE:
                break
        return cohort.kept(sorted(replies, key=lambda r: r.client), request)


def measured(own: Mapping[str, Tensor], answers: Answers) -> dict[str, Tensor]:
    """Add the dimensions of a round, and split the clients by the mean of theirs."""
    at = torch.tensor([reply.client for reply in answers.replies])
    dimension, times, level = (own[name].clone() for name in ("dimension", "times", "level"))
    dimension[at] += torch.tensor(answers.numbers("dimension"), dtype=torch.float64)
    times[at] += 1
    level[at] = torch.tensor(answers.numbers("level"), dtype=torch.float64)
    heard = times.nonzero().flatten()
    groups = two_groups(dimension[heard] / times[heard])
    noisy = torch.zeros_like(own["noisy"])
    noisy[heard] = (groups.upper > 0.5) | (not groups.separate)
    return {"dimension": dimension, "times": times, "level": level, "noisy": noisy}


def _opening(federation: Federation) -> dict[str, Tensor]:
    """Return what the server knows of clients before round 0: nothing."""
    count = max(federation.sizes) + 1
    numbers = {name: torch.zeros(count).double() for name in ("dimension", "times", "level")}
    return {**numbers, "noisy": torch.zeros(count, dtype=torch.bool)}


@dataclass(frozen=True)
class FedCorrKeys(Keys):
    """The stages."""

    table: ClassVar[str] = "inner"
    corr_rounds: int = key(10, "rounds in which noisy clients are found and relabel", low=1)
    corr_finetune: int = key(5, "rounds in which only clients with few wrong labels train", low=0)


def build(settings: Settings, context: BuildContext) -> Algorithm:  # noqa: ARG001
    """Build it from its keys."""
    own = settings[FedCorrKeys]
    algorithm = LabelCorrection(local_of(settings), own.corr_rounds, own.corr_finetune)
    return with_head_start(settings, algorithm)


METHOD = Method(
    "FedCorr: noisy clients are found by the dimension of predictions, and relabel",
    (LocalKeys, HeadStartKeys, FedCorrKeys),
    build,
    learns_weights=True,
    asks="train-relabelled",
)
