"""Posterior (ours, for networks): a label weighs what Bayes' rule gives it. No Hessian, no solver.

    x_i  = P(right | p_i, ℓ_i; ρ_m, δ)                       ``problem/label_posterior.py``
    g_m  = Σ_i [x_i ℓ_i + κ (1 − x_i) ℓ'_i] / (N_m w)

ℓ_i is the loss with the label, ℓ'_i that with the class that the model predicts. κ is
max(0, 1 − 10 e) with the judged error e, and w the mean of x + κ (1 − x) over all sites in the last
round, which keeps the length of a step, however many labels are dropped.

A model that trains on wrong labels comes to believe them, and would then find fewer and fewer of
them. So the share of wrong labels is measured once, by a model that has seen none of them, and the
trained model only says which ones they are:

    Before round 0  a head start on half of the clean set
    Round           one exchange: a site scores its labels with y_k, trains T steps, and replies
                    with its rate by the unseen model, and with the curve ρ_m(δ) of y_k
    δ               mean curve = mean rate; the standard error of that rate gives δ's own
    δ in training   the same at the lower end of the rate's one-sided 95 % interval, at least 0:
                    a right label that is dropped costs more than a wrong one that is kept
    y               the mean of the sites and of the first half of the clean set, which trains along
    Judged          accuracy, loss, temperature and κ, on the second half of the clean set, on
                    which no model is ever trained

δ and its spread are the audit's as well, in place of constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedsift.algorithms.additions.constants import ERRORS_UNTRUSTED, HEAD_START_SHARE
from fedsift.algorithms.additions.head_start import HeadStartKeys
from fedsift.algorithms.bilevel import with_head_start
from fedsift.algorithms.clean_client import with_clean_client
from fedsift.algorithms.clean_set import split_validation
from fedsift.algorithms.fedavg import LocalKeys, draw_cohort, local_of, next_y
from fedsift.algorithms.method import Method
from fedsift.algorithms.state import Algorithm, RoundInfo, Server, ServerState
from fedsift.keys import BuildContext, Settings
from fedsift.messages import Answers, Federation, Request, scalars_of
from fedsift.problem.label_posterior import OPTIMISMS
from fedsift.problem.sample_losses import probabilities
from fedsift.problem.sgd import LocalSteps
from fedsift.problem.temperature import fit_temperature

ONE_SIDED_95 = 1.645
LEAST_SPREAD = 0.05  # of δ: a tenth of the distance between two points of the curve


@dataclass(frozen=True)
class Optimism:
    """What a site needs to weigh its labels by the model that is sent.

    δ in training, the model's temperature, the mean weight of the last round, and κ.
    """

    optimism: float
    temperature: float
    kept: float
    trust: float


@dataclass(frozen=True)
class Posterior:
    """One exchange per round."""

    local: LocalSteps = LocalSteps()

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        part, rest = split_validation(server, HEAD_START_SHARE, "head start")
        kept = dict(state.own) if state.own else _opening(server, state.y, rest)

        # Step 1: the one exchange.
        sent = Optimism(
            *(float(kept[name]) for name in ("lenient", "temperature", "kept", "trust"))
        )
        cohort = draw_cohort(federation, server, k)
        scalars = scalars_of(self.local, sent)
        answers = cohort.ask(Request("train-posterior", k, {"y": state.y}, scalars))

        # Step 2: δ of the model that was sent.
        found = matched(answers, float(kept["accuracy"]), len(rest))
        numbers = {**found._asdict(), "kept": answers.mean_scalar("kept")}
        kept |= {name: _number(value) for name, value in numbers.items()}

        # Step 3: y, half of the clean set being one more client.
        y = next_y(
            state, with_clean_client(server, answers, state.y, self.local, k, part), self.local, k
        )
        judged = _judged(probabilities(server.problem, y, rest), rest.labels)
        kept |= _measured(judged)
        metrics = {
            "train_loss": answers.mean_scalar("loss"),
            **judged,
            "optimism": found.optimism,
        }
        return RoundInfo(metrics, answers.events), replace(state, y=y, own=kept)


class Matched(NamedTuple):
    """δ where the mean curve has the mean rate, its standard deviation, and δ for training."""

    optimism: float
    spread: float
    lenient: float


def matched(answers: Answers, accuracy: float, judges: int) -> Matched:
    """Match the curve of the model that was sent with the rate by one that saw no label.

    ``accuracy`` is that of the latter on so many ``judges``.
    """
    curve, rate = answers.mean("curve").double().cpu().numpy(), answers.mean_scalar("unseen_rate")
    variances = zip(answers.shares, answers.numbers("unseen_variance"), strict=True)
    drawn = sum(share**2 * variance for share, variance in variances)
    error = (drawn + accuracy * (1 - accuracy) / judges) ** 0.5
    at = [rate, rate - error, rate + error, rate - ONE_SIDED_95 * error]
    middle, low, high, least = np.interp(at, curve, OPTIMISMS).tolist()
    return Matched(middle, max((high - low) / 2, LEAST_SPREAD), max(least, 0.0))


def _opening(server: Server, y: Tensor, rest: Any) -> dict[str, Tensor]:
    """Return what is measured of the model that has seen no label of a site."""
    judged = _judged(probabilities(server.problem, y, rest), rest.labels)
    start = {"accuracy": judged["judged_accuracy"], "lenient": 0.0, "kept": 1.0}
    return {**{name: _number(value) for name, value in start.items()}, **_measured(judged)}


def _measured(judged: Mapping[str, float]) -> dict[str, Tensor]:
    """Return temperature and κ of a model, by the half that judges."""
    trust = trusted(judged["judged_accuracy"])
    return {"temperature": _number(judged["temperature"]), "trust": _number(trust)}


def trusted(accuracy: float) -> float:
    """Return κ = max(0, 1 − 10 e), e being the judged share of errors."""
    return max(0.0, 1.0 - ERRORS_UNTRUSTED * (1 - accuracy))


def _judged(p: Tensor, labels: Tensor) -> dict[str, float]:
    given = p.gather(1, labels[:, None]).clamp(min=1e-30)
    return {
        "judged_accuracy": float((p.argmax(dim=1) == labels).double().mean()),
        "judged_loss": float(-given.log().mean()),
        "temperature": fit_temperature(p.double().cpu().numpy(), labels.cpu().numpy()),
    }


def _number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def build(settings: Settings, context: BuildContext) -> Algorithm:  # noqa: ARG001
    """Build it from its keys."""
    return with_head_start(settings, Posterior(local_of(settings)))


METHOD = Method(
    "ours, for networks: a label weighs what Bayes' rule gives it; no Hessian products",
    (LocalKeys, HeadStartKeys),
    build,
    learns_weights=True,
)
