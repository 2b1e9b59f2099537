"""Posterior, the site's half: weigh the labels by Bayes' rule, then take local steps.

When a site is asked for the first time, the model has seen none of its labels. What it then says
of its samples is kept (``unseen``), and gives the site's share of wrong labels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedsift.algorithms.outer_step import Scoring
from fedsift.algorithms.posterior import Optimism
from fedsift.client.follow import in_turn
from fedsift.client.inputs import point
from fedsift.client.outer_step import averaged
from fedsift.client.rivals import steps
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.messages import Request
from fedsift.problem.label_posterior import curve, evidence, known_rate, rate, right
from fedsift.problem.protocol import part_of
from fedsift.problem.sample_losses import probabilities
from fedsift.problem.sgd import LocalSteps
from fedsift.randomness import generator


def train_posterior(
    client: Client,
    state: ClientState,
    request: Request,
    shared: Shared,  # noqa: ARG001
) -> Outcome:
    """Reply as `train` does, with the site's rate and curve."""
    _, y, state = point(client, state, request)
    sent = request.read(Optimism)
    if state.unseen is None:
        state = replace(state, unseen=_probabilities(client, y, None, sent).log(), average=None)
    state = _with_known_rate(client, state)
    assert state.known is not None
    at = _turn(client, request)
    labels = client.batch.labels if at is None else client.batch.labels[at]
    found = evidence(_probabilities(client, y, at, sent), labels)
    own = right(found, rate(found, sent.optimism), sent.optimism).to(y)
    x = own if at is None else y.new_zeros(len(client.batch)).index_put_((at,), own)

    def loss(logits: Tensor, batch: Any) -> Tensor:
        weight = x[batch.positions]
        given = cross_entropy(logits, batch.labels, reduction="none")
        predicted = cross_entropy(logits, logits.argmax(dim=1), reduction="none")
        return (weight * given + sent.trust * (1 - weight) * predicted) / sent.kept

    mean, variance = state.known.tolist()
    state = replace(state, average=_averaged(client, state, at, own))
    outcome = steps(client, state, request, loss, first=at)
    more = {
        "unseen_rate": mean,
        "unseen_variance": variance,
        "kept": float((own + sent.trust * (1 - own)).mean()),
    }
    return outcome._replace(
        arrays={**outcome.arrays, "curve": curve(found)}, scalars={**outcome.scalars, **more}
    )


def _probabilities(client: Client, y: Tensor, at: Tensor | None, sent: Optimism) -> Tensor:
    """Return p(c) of these samples at the temperature of the model."""
    batch = client.batch if at is None else part_of(client.batch, at)
    raw = probabilities(client.problem, y, batch)
    return (raw.clamp(min=1e-30).log() / sent.temperature).softmax(dim=1)


def _with_known_rate(client: Client, state: ClientState) -> ClientState:
    """Keep what is known of the site's rate: ``unseen`` never changes."""
    if state.known is not None or state.unseen is None:
        return state
    known = known_rate(evidence(state.unseen.exp(), client.batch.labels))
    return replace(state, known=torch.tensor(known, dtype=torch.float64))


def _turn(client: Client, request: Request) -> Tensor | None:
    """Return the samples that are weighed in this round; None: all.

    Twice those of the local batches, which are drawn from them, and at least ``scored``: a round
    costs the same at a site of any size.
    """
    local, n = request.read(LocalSteps), len(client.batch)
    scored = request.read(Scoring).scored
    size = max(2 * local.steps * local.batch_size, scored)
    if not scored or local.batch_size <= 0 or size >= n:
        return None
    block = in_turn(n, size, client.seed, request.round, client.id)
    source = generator(client.seed, request.round, client.id, "turn")
    return block[torch.randperm(size, generator=source)]


def _averaged(client: Client, state: ClientState, at: Tensor | None, own: Tensor) -> Tensor | None:
    """Return the mean over rounds of P(right); before a sample is weighed, the unseen model's."""
    if at is None:
        return averaged(state.average, own)
    past = state.average
    if past is None:
        assert state.unseen is not None
        found = evidence(state.unseen.exp(), client.batch.labels)
        return right(found, rate(found)).to(own).index_put_((at,), own)
    return past.index_put((at,), _known(averaged(past[at], own)))


def _known(value: Tensor | None) -> Tensor:
    assert value is not None
    return value
