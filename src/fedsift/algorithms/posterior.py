"""Posterior (ours, for networks): a label weighs what Bayes' rule gives it. No Hessian, no solver.

    P_i  = P(right | p_i, ℓ_i; ρ_m, δ)                       ``problem/label_posterior.py``
    x_i  = 1 − a_k (1 − P_i),    a_k = 1 − 0.9^k
    g_m  = Σ_i [x_i ℓ_i + (1 − x_i) p'_i ℓ'_i] / (N_m w)

ℓ_i is the loss with the label, ℓ'_i that with the class that the sent model predicts, p'_i how
probable it says this class is, at a temperature that was fitted on samples that it has not seen. w
is the mean of x + (1 − x) p' over all sites in the last round: it keeps the length of a step,
however many labels are dropped. a_k lets every label weigh 1 in round 0: the first model misjudges
many right labels, and one that is dropped for good can never be learned.

A model that trains on wrong labels comes to believe them, and would then find fewer and fewer of
them. So the share of wrong labels is measured once, by a model that has seen none of them, and the
trained model only says which ones they are:

    Before round 0  a head start on half of the clean set, judged by the other half
    Round           one exchange: a site scores its labels with y_k, trains T steps, and replies
                    with its rate by the unseen model, and with the curve ρ_m(δ) of y_k
    δ               where the mean curve has about the mean rate (``known_optimism``)
    y               the mean of the sites and of four fifths of the clean set, which train along
    Judged          accuracy, loss and temperature, on the last fifth, on which no model is ever
                    trained

δ and its spread are the audit's as well, in place of constants; and no interval of it is narrower
than the standard error of the share that was measured before round 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedsift.algorithms.additions.constants import AVERAGING, HEAD_START_SHARE
from fedsift.algorithms.additions.head_start import HeadStartKeys
from fedsift.algorithms.bilevel import with_head_start
from fedsift.algorithms.clean_client import with_clean_client
from fedsift.algorithms.clean_set import split_validation
from fedsift.algorithms.fedavg import LocalKeys, draw_cohort, local_of, next_y
from fedsift.algorithms.method import Method
from fedsift.algorithms.outer_step import ScoredKeys, Scoring
from fedsift.algorithms.state import Algorithm, RoundInfo, Server, ServerState
from fedsift.keys import BuildContext, Settings
from fedsift.messages import Answers, Federation, Request, scalars_of
from fedsift.problem.label_posterior import known_optimism
from fedsift.problem.sample_losses import probabilities
from fedsift.problem.sgd import LocalSteps
from fedsift.problem.temperature import fit_temperature

TRAINS_ALONG = 0.8  # share of the clean set; the rest judges
TEMPERATURES = 0.25  # prior spread of log T: a fifth of a small clean set says little of it


@dataclass(frozen=True)
class Optimism:
    """What a site needs to weigh its labels by the model that is sent.

    δ, the model's temperature, the mean weight w of the last round, and a_k.
    """

    optimism: float
    temperature: float
    kept: float
    counts: float


@dataclass(frozen=True)
class Posterior:
    """One exchange per round."""

    local: LocalSteps = LocalSteps()
    scored: int = 0

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        _, rest = split_validation(server, HEAD_START_SHARE, "head start")
        along, judges = split_validation(server, TRAINS_ALONG, "head start")  # the same order
        kept = dict(state.own) if state.own else _opening(server, state.y, rest)

        # Step 1: the one exchange.
        optimism, temperature, w = (float(kept[n]) for n in ("optimism", "temperature", "kept"))
        sent = Optimism(optimism, temperature, w, counts=1 - AVERAGING**k)
        cohort = draw_cohort(federation, server, k)
        scalars = scalars_of(self.local, sent, Scoring(self.scored))
        answers = cohort.ask(Request("train-posterior", k, {"y": state.y}, scalars))

        # Step 2: δ of the model that was sent.
        kept |= _numbers(**matched(answers, float(kept["rate_error"])))
        kept |= _numbers(kept=answers.mean_scalar("kept"))

        # Step 3: y, most of the clean set being one more client.
        with_clean = with_clean_client(server, answers, state.y, self.local, k, along)
        y = next_y(state, with_clean, self.local, k)
        judged = _judged(server, y, judges)
        kept |= _numbers(temperature=judged["temperature"])
        metrics = {
            "train_loss": answers.mean_scalar("loss"),
            **judged,
            "optimism": float(kept["optimism"]),
        }
        return RoundInfo(metrics, answers.events), replace(state, y=y, own=kept)


def matched(answers: Answers, rate_error: float) -> dict[str, float]:
    """Return δ of the model that was sent, and its spread, by the rate of one that saw no label.

    ``rate_error`` is what is not known of the latter's rate, however many labels it has judged.
    """
    variances = zip(answers.shares, answers.numbers("unseen_variance"), strict=True)
    drawn = sum(share**2 * variance for share, variance in variances)
    error = (drawn + rate_error**2) ** 0.5
    known = known_optimism(answers.mean("curve"), answers.mean_scalar("unseen_rate"), error)
    return {"optimism": known.mean, "spread": known.variance**0.5}


def _opening(server: Server, y: Tensor, rest: Any) -> dict[str, Tensor]:
    """Return what is measured of the model that has seen no label of a site."""
    judged = _judged(server, y, rest)
    wrong = expected_error(judged["judged_accuracy"], len(rest))
    error = (wrong * (1 - wrong) / len(rest)) ** 0.5
    temperature = judged["temperature"]
    return _numbers(rate_error=error, optimism=0.0, kept=1.0, temperature=temperature)


def expected_error(accuracy: float, judges: int) -> float:
    """Return the share of errors by Laplace's rule, so that few judges promise little."""
    return ((1 - accuracy) * judges + 1) / (judges + 2)


def _judged(server: Server, y: Tensor, judges: Any) -> dict[str, float]:
    p, labels = probabilities(server.problem, y, judges), judges.labels
    given = p.gather(1, labels[:, None]).clamp(min=1e-30)
    shown = p.double().cpu().numpy(), labels.cpu().numpy()
    return {
        "judged_accuracy": float((p.argmax(dim=1) == labels).double().mean()),
        "judged_loss": float(-given.log().mean()),
        "temperature": fit_temperature(*shown, TEMPERATURES),
    }


def _numbers(**values: float) -> dict[str, Tensor]:
    return {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}


def build(settings: Settings, context: BuildContext) -> Algorithm:  # noqa: ARG001
    """Build it from its keys."""
    return with_head_start(settings, Posterior(local_of(settings), settings[ScoredKeys].scored))


METHOD = Method(
    "ours, for networks: a label weighs what Bayes' rule gives it; no Hessian products",
    (LocalKeys, HeadStartKeys, ScoredKeys),
    build,
    learns_weights=True,
    means_only=True,
    asks="train-posterior",
    sends_differences=True,
)
