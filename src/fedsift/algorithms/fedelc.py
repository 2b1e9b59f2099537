"""FedELC (Jiang et al., 2024): find the noisy clients, then learn their labels along.

    rounds 1..R    FedAvg
    before R + 1   clients send their mean loss in every class; two Gaussians split the clients,
                   or none is clean where one Gaussian has the lower BIC (ours: see below)
    from R + 1     clean clients: cross-entropy with their labels. Noisy clients learn z_i, logits
                   of a soft label q_i = softmax(z_i), which start at 10 for the label, else 0:

                   z_i  ← z_i − s ((q_i − p_i) + α (q_i − e_label))        at the model sent
                   ℓ_i   = KL(p_i ‖ q_i) + β H(p_i)                        the local steps

    y_k+1          mean of the updates with weights N_m exp(−D_m), D_m being the distance to the
                   nearest clean client's, over the largest such distance

    weight       = q_label / (q_label + the largest other q); of p at clean clients

The gradient of the paper's loss KL(p ‖ q) − α log q_label in z is written out. The paper takes
such a step whenever a sample is in a batch; here all samples take one a round, and s is for one
sample. The first stage is plain FedAvg, without the paper's logit adjustment. The two groups are
asked one after the other: two exchanges a round, one per client. The paper always splits; where
all sites are equally noisy, half of them would then train on their wrong labels. The clean set is
used by the head start only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from fedsift.algorithms.additions.head_start import HeadStartKeys
from fedsift.algorithms.bilevel import with_head_start
from fedsift.algorithms.fedavg import LocalKeys, draw_cohort, local_of, next_y, train_round
from fedsift.algorithms.method import Method
from fedsift.algorithms.state import Algorithm, RoundInfo, Server, ServerState
from fedsift.keys import BuildContext, Keys, Settings, key
from fedsift.messages import Answers, Cohort, Federation, Request, scalar, scalars_of
from fedsift.problem.mixture import two_groups
from fedsift.problem.sgd import LocalSteps

NEAR = 1e-12


@dataclass(frozen=True)
class LabelLearning:
    """s, α, β, and whether a client corrects its labels."""

    step: float = scalar("elc_step", 2.0)
    compatibility: float = scalar("elc_compatibility", 0.5)
    entropy: float = scalar("elc_entropy", 0.2)
    corrects: bool = scalar("elc_corrects", True)

    def updated(self, z: Tensor, p: Tensor, given: Tensor) -> Tensor:
        """Return z after one step; a row of ``given`` is the label as e_label."""
        q = z.softmax(dim=1)
        return z - self.step * ((q - p) + self.compatibility * (q - given))


@dataclass(frozen=True)
class EndToEndCorrection:
    """One exchange per round in the first ``first`` rounds, then two, one per group."""

    local: LocalSteps = LocalSteps()
    first: int = 10
    learning: LabelLearning = LabelLearning()

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        cohort = draw_cohort(federation, server, k)
        if k < self.first:
            answers, y = train_round(cohort, state, self.local, k)
            info = RoundInfo({"train_loss": answers.mean_scalar("loss")}, answers.events)
            return info, replace(state, y=y)
        opening: tuple[str, ...] = ()
        if k == self.first:
            opening, clean = self._split(federation, server, state.y, k)
            state = replace(state, own={"clean": clean})
        trusted = set(state.own["clean"].tolist())
        answers = self._ask(cohort, state.y, trusted, k)
        weighed = by_distance(answers, trusted)
        y = next_y(state, weighed, self.local, k)
        metrics = {
            "train_loss": answers.mean_scalar("loss"),
            "clean_clients": len(trusted),
        }
        return RoundInfo(metrics, (*opening, *answers.events)), replace(state, y=y)

    def _split(
        self, federation: Federation, server: Server, y: Tensor, k: int
    ) -> tuple[tuple[str, ...], Tensor]:
        """Return the numbers of the clean clients; one that does not reply is not among them."""
        everyone = Cohort(federation, tuple(sorted(federation.sizes)), server.min_clients)
        heard = everyone.ask(Request("class-losses", k, {"y": y}))
        losses = [p for p in heard.payloads("losses") if isinstance(p, Tensor)]
        groups = two_groups(scaled(torch.stack(losses)))
        clean = (groups.upper < 0.5) & groups.separate
        members = [r.client for r, c in zip(heard.replies, clean.tolist(), strict=True) if c]
        return heard.events, torch.tensor(members, dtype=torch.int64)

    def _ask(self, cohort: Cohort, y: Tensor, trusted: set[int], k: int) -> Answers:
        """Ask the clean clients to train and the noisy ones to correct their labels too."""
        replies = []
        for corrects in (False, True):
            group = [m for m in cohort.clients if (m not in trusted) == corrects]
            learning = replace(self.learning, corrects=corrects)
            request = Request("train-elc", k, {"y": y}, scalars_of(self.local, learning))
            replies += cohort.federation.ask(request, group) if group else []
        return cohort.kept(sorted(replies, key=lambda r: r.client), request)


def scaled(losses: Tensor) -> Tensor:
    """Return every column as a share of the range over clients."""
    low, high = losses.min(dim=0).values, losses.max(dim=0).values
    return (losses - low) / (high - low).clamp(min=NEAR)


def by_distance(answers: Answers, trusted: set[int]) -> Answers:
    """Weigh updates by N_m exp(−D_m), D_m = 0 at clean clients."""
    updates = [p for p in answers.payloads("update") if isinstance(p, Tensor)]
    clean = [u for r, u in zip(answers.replies, updates, strict=True) if r.client in trusted]
    if not clean:
        return answers
    nearest = [min(float((u - c).norm()) for c in clean) for u in updates]
    largest = max(*nearest, NEAR)
    factors = torch.exp(-torch.tensor(nearest, dtype=torch.float64) / largest).tolist()
    weights = [r.num_samples * f for r, f in zip(answers.replies, factors, strict=True)]
    return replace(answers, weights=tuple(weights))


@dataclass(frozen=True)
class FedElcKeys(Keys):
    """The stages and the learned labels."""

    table: ClassVar[str] = "inner"
    elc_rounds: int = key(
        10, "rounds of FedAvg before clients are split into noisy and clean", low=1
    )
    elc_step: float = key(2.0, "s: step of the learned labels' logits", low=0)
    elc_compatibility: float = key(0.5, "α: how strongly learned labels stay at given ones", low=0)
    elc_entropy: float = key(0.2, "β: weight of the predictions' entropy", low=0)


def build(settings: Settings, context: BuildContext) -> Algorithm:  # noqa: ARG001
    """Build it from its keys."""
    own = settings[FedElcKeys]
    learning = LabelLearning(own.elc_step, own.elc_compatibility, own.elc_entropy)
    algorithm = EndToEndCorrection(local_of(settings), own.elc_rounds, learning)
    return with_head_start(settings, algorithm)


METHOD = Method(
    "FedELC: noisy clients are found by their losses and learn their labels along",
    (LocalKeys, HeadStartKeys, FedElcKeys),
    build,
    learns_weights=True,
    asks="train ^class-losses train-elc",
)
