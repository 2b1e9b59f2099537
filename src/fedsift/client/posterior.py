"""Posterior, the site's half: weigh the labels by Bayes' rule, then take local steps.

When a site is asked for the first time, the model has seen none of its labels. What it then says
of its samples is kept (``unseen``), and gives the site's share of wrong labels.

Clients in one process weigh their labels together (``weighed``) and take their local steps as one
stack (``federation/stacked.py``): for small sites most of the time goes into starting operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fedsift.algorithms.outer_step import Scoring
from fedsift.algorithms.posterior import Optimism
from fedsift.client.follow import in_turn
from fedsift.client.inputs import batch_generator, point
from fedsift.client.outer_step import averaged
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.messages import Request
from fedsift.problem.batches import LabelledBatch
from fedsift.problem.label_posterior import (
    OPTIMISMS,
    Weighed,
    evidence,
    known_rate,
    rate,
    rates,
    right,
    targets,
)
from fedsift.problem.posterior_loss import PosteriorLoss
from fedsift.problem.protocol import is_stored, part_of, pass_length
from fedsift.problem.sample_losses import probabilities, with_sample_losses
from fedsift.problem.sgd import LocalSteps, local_sgd
from fedsift.randomness import generator


def train_posterior(
    client: Client, state: ClientState, request: Request, shared: Shared
) -> Outcome:
    """Reply as `train` does, with the site's rate and curve."""
    _, y, state = point(client, state, request)
    sent = request.read(Optimism)
    found = shared.weighed or weighed([client], y, request)[0]
    if state.unseen is None:
        whole = found.at is None
        p = found.p if whole else _probabilities([(client, None)], y, sent)[0]
        state = replace(state, unseen=p.log(), average=None)
    state = _with_known_rate(client, state)
    assert state.known is not None
    trained = shared.trained
    if trained is None:
        loss = PosteriorLoss(with_sample_losses(client.problem), sent.kept)
        local, source = request.read(LocalSteps), batch_generator(client, request)
        whole_targets = found.whole(len(client.batch))
        trained = local_sgd(loss, whole_targets, y, client.batch, local, source, first=found.at)
    mean, variance = state.known.tolist()
    state = replace(state, average=_averaged(client, state, found.at, found.right))
    scalars = {
        "loss": float(trained.loss),
        "unseen_rate": mean,
        "unseen_variance": variance,
        "kept": float(found.targets.sum(dim=1).mean()),
    }
    return Outcome({"update": trained.y - y, "curve": found.curve}, scalars, state)


def weighed(clients: Sequence[Client], y: Tensor, request: Request) -> list[Weighed]:
    """Weigh the labels of clients that have a problem and a number of samples in common."""
    sent = request.read(Optimism)
    turns = [_turn(client, request) for client in clients]
    ps = _probabilities(list(zip(clients, turns, strict=True)), y, sent)
    labels = [
        client.batch.labels if at is None else client.batch.labels[at]
        for client, at in zip(clients, turns, strict=True)
    ]
    found = torch.stack([evidence(*pair) for pair in zip(ps, labels, strict=True)])
    known = rates(found, found.new_tensor([sent.optimism, *OPTIMISMS]))
    rights = [
        right(own, float(shares[0]), sent.optimism).to(y)
        for own, shares in zip(found, known, strict=True)
    ]
    return [
        Weighed(at, p, is_right, targets(p, given, is_right, sent.counts), shares[1:])
        for at, p, given, is_right, shares in zip(turns, ps, labels, rights, known, strict=True)
    ]


def _probabilities(
    parts: Sequence[tuple[Client, Tensor | None]], y: Tensor, sent: Optimism
) -> list[Tensor]:
    """Return p(c) of these samples at the temperature of the model; small batches as one."""
    problem, first = parts[0][0].problem, parts[0][0].batch
    batches = [c.batch if at is None else part_of(c.batch, at) for c, at in parts]
    small = not is_stored(first) and 2 * len(batches[0]) <= pass_length(problem, first)
    if small and len(parts) > 1:
        inputs, labels = (
            torch.cat([getattr(batch, name) for batch in batches]) for name in ("inputs", "labels")
        )
        together = probabilities(problem, y, LabelledBatch.of(inputs, labels))
        raw = torch.split(together, [len(batch) for batch in batches])
    else:
        raw = tuple(probabilities(problem, y, batch) for batch in batches)
    return [(p.clamp(min=1e-30).log() / sent.temperature).softmax(dim=1) for p in raw]


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
