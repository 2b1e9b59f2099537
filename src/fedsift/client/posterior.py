"""Posterior, the site's half: weigh the labels by Bayes' rule, then take local steps.

When a site is asked for the first time, the model has seen none of its labels. What it then says
of its samples is kept (``unseen``), and gives the site's share of wrong labels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor
from torch.nn.functional import cross_entropy

from fedsift.algorithms.posterior import Optimism
from fedsift.client.inputs import point
from fedsift.client.outer_step import averaged
from fedsift.client.rivals import steps
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.messages import Request
from fedsift.problem.label_posterior import curve, evidence, known_rate, rate, right
from fedsift.problem.sample_losses import probabilities


def train_posterior(
    client: Client,
    state: ClientState,
    request: Request,
    shared: Shared,  # noqa: ARG001
) -> Outcome:
    """Reply as `train` does, with the site's rate and curve."""
    _, y, state = point(client, state, request)
    sent, labels = request.read(Optimism), client.batch.labels
    raw = probabilities(client.problem, y, client.batch)
    p = (raw.clamp(min=1e-30).log() / sent.temperature).softmax(dim=1)
    past = state.average
    if state.unseen is None:
        state, past = replace(state, unseen=p.log()), None
    assert state.unseen is not None
    known = known_rate(evidence(state.unseen.exp(), labels))
    found = evidence(p, labels)
    x = right(found, rate(found, sent.optimism), sent.optimism).to(p)

    def loss(logits: Tensor, batch: Any) -> Tensor:
        weight = x[batch.positions]
        given = cross_entropy(logits, batch.labels, reduction="none")
        predicted = cross_entropy(logits, logits.argmax(dim=1), reduction="none")
        return (weight * given + sent.trust * (1 - weight) * predicted) / sent.kept

    outcome = steps(client, replace(state, average=averaged(past, x)), request, loss)
    more = {
        "unseen_rate": known.mean,
        "unseen_variance": known.variance,
        "kept": float((x + sent.trust * (1 - x)).mean()),
    }
    return outcome._replace(
        arrays={**outcome.arrays, "curve": curve(found)}, scalars={**outcome.scalars, **more}
    )
