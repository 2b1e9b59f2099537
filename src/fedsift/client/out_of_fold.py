"""Out of fold, the site's half: steps of all heads at once, and the site's part of the noise model.

Head (k, f) trains on the samples outside fold f. The target of sample i for chain k comes from head
(k, f_i), as it is at that step: no head is ever told what it said itself.

When a site is asked for the first time no head has seen any of its labels. What the heads then say
of its samples is kept (``unseen``): noise models are fitted to it, and an audit that trusts none
rests on it. What the training heads say of a sample out of fold is kept as well, from the last step
that had it (``recent``): one more noise model is fitted to that (``problem/noise_models.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from fedsift.algorithms.out_of_fold import Judging
from fedsift.algorithms.outer_step import Scoring
from fedsift.client.follow import in_turn
from fedsift.client.inputs import batch_generator
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.compress import Payload
from fedsift.errors import InputError
from fedsift.messages import Request
from fedsift.problem.folds import site_folds
from fedsift.problem.linear_head import LinearHead, logits, stepped
from fedsift.problem.noise_model import beliefs
from fedsift.problem.noise_models import COUNT, PLAIN, NoiseModels
from fedsift.problem.protocol import chunks
from fedsift.problem.sgd import LocalSteps, minibatches

CHUNK = 256
TURN = 8


class _Trained(NamedTuple):
    heads: Tensor
    loss: float
    weights: Tensor
    recent: Tensor


def fold_step(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:  # noqa: ARG001
    """Step the heads; reply with their change and, where it is allowed, sums of the labels."""
    head, judging = LinearHead.of(client.problem), request.read(Judging)
    sent = {name: request.array(name) for name in ("heads", "centre", "noise", "betas")}
    heads, centre = _checked(client, head, sent)
    state = _opened(client, state, head, heads, centre, request)
    state, sums, given = _noise_step(client, state, request, judging)
    trained = _train(client, state, request, head, heads, centre, given.to(heads))
    arrays: dict[str, Payload] = {"update": trained.heads - heads}
    if judging.share:
        arrays["sums"] = sums
    state = replace(state, average=trained.weights, recent=trained.recent)
    return Outcome(arrays, {"loss": trained.loss}, state)


def judgement(
    client: Client, state: ClientState, sent: Mapping[str, Tensor]
) -> tuple[Tensor, Tensor | None]:
    """Return P(class) of every sample by heads that have not seen its label.

    The second is by heads that have seen no label of the site at all; None: it was never asked.
    """
    head = LinearHead.of(client.problem)
    heads, centre = _checked(client, head, sent)
    found = []
    for part in chunks(client.batch, CHUNK):
        z = logits(heads, head.centred(part.inputs, centre))
        if state.folds is None:  # never asked: no head has seen a label of this site
            z = z.mean(dim=(1, 2))
        else:
            z = _own(z, state.folds[part.positions]).mean(dim=1)
        found.append(z.softmax(dim=1))
    return torch.cat(found), None if state.unseen is None else state.unseen.exp()


def _own(z: Tensor, folds: Tensor) -> Tensor:
    """Return [n, K, C]: of the logits [n, K, F, C], those by heads not trained on the sample."""
    return z[torch.arange(len(z), device=z.device), :, folds]


def _checked(client: Client, head: LinearHead, sent: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Return the heads and μ; refuse those of another model."""
    classes, width = head.classes, head.width
    shapes = {name: tuple(array.shape) for name, array in sent.items()}
    wanted = {"centre": (width,), "noise": (COUNT, classes, classes), "betas": (COUNT,)}
    heads = shapes.pop("heads", ())
    fits = len(heads) == 4 and min(heads) > 0 and heads[2:] == (classes, width + 1)
    if not fits or "centre" not in shapes or any(wanted[n] != shapes[n] for n in shapes):
        raise InputError(
            f"client {client.id} was sent heads of another model; give both the same --model"
        )
    return sent["heads"], sent["centre"]


def _opened(
    client: Client,
    state: ClientState,
    head: LinearHead,
    heads: Tensor,
    centre: Tensor,
    request: Request,
) -> ClientState:
    """Keep the folds, and what is known before the first label of the site is trained on."""
    if state.folds is not None:
        return state
    folds = site_folds(client.batch.inputs, heads.shape[1]).to(heads.device)
    first = request.arrays.get("prior")
    if not isinstance(first, Tensor):  # it joins later: the heads have seen other sites only
        first = heads.mean(dim=(0, 1)) / request.read(Judging).temperature
    parts = chunks(client.batch, CHUNK)
    logs = [logits(first, head.centred(part.inputs, centre)).log_softmax(dim=1) for part in parts]
    unseen, rates = torch.cat(logs), torch.zeros(COUNT, dtype=torch.float64)
    kept = {"folds": folds, "unseen": unseen, "recent": unseen, "rates": rates, "average": None}
    return replace(state, **kept)


def _noise_step(
    client: Client, state: ClientState, request: Request, judging: Judging
) -> tuple[ClientState, Tensor, Tensor]:
    """Step the site's rates in all noise models; return the sums, and log P(ỹ | c) as [ỹ, c]."""
    assert state.unseen is not None
    assert state.recent is not None
    assert state.rates is not None
    labels = client.batch.labels.cpu()
    models = NoiseModels.of(request.array("noise"), request.array("betas"))
    if not judging.share and state.noise is not None and state.betas is not None:
        models = NoiseModels.of(state.noise, state.betas)
    at = _turn(client, request)
    unseen, recent = state.unseen[at].cpu().double(), state.recent[at].cpu().double()
    rates, sums = models.at_site(state.rates, unseen, recent, labels[at])
    sums = sums * (len(labels) / max(len(unseen), 1))  # those of a turn stand for all
    plain, rate = models[PLAIN], float(rates[PLAIN])
    state = replace(state, rates=rates)
    if state.average is None:
        first = _known(state.unseen)
        q, _ = beliefs(plain, rate, first.cpu().double(), labels)
        average = q.gather(1, labels[:, None]).squeeze(1).to(first)
        state = replace(state, average=average)
    if not judging.share:
        own = models.stepped(sums)
        state = replace(state, noise=own.matrices, betas=own.betas)
    return state, sums, plain.chances(rate).mT


def _known(value: Tensor | None) -> Tensor:
    assert value is not None
    return value


def _turn(client: Client, request: Request) -> Tensor | slice:
    """Return the samples whose labels step the noise models in this round: ``TURN`` x ``scored``.

    A step needs none but what is kept of them, so that there may be more than are trained on.
    """
    size, n = TURN * request.read(Scoring).scored, len(client.batch)
    if not 0 < size < n:
        return slice(None)
    return in_turn(n, size, client.seed, request.round, client.id)


def _train(
    client: Client,
    state: ClientState,
    request: Request,
    head: LinearHead,
    heads: Tensor,
    centre: Tensor,
    given: Tensor,
) -> _Trained:
    """Take T steps of all heads on soft targets."""
    assert state.folds is not None
    assert state.average is not None
    assert state.recent is not None
    local, judging = request.read(LocalSteps), request.read(Judging)
    source, losses = batch_generator(client, request), []
    weights, recent = state.average.clone(), state.recent.clone()
    whole = torch.arange(len(client.batch), device=heads.device)
    for at in minibatches(len(client.batch), local, source, heads.device):
        part = client.batch.take(whole if at is None else at)
        x = head.centred(part.inputs, centre)
        z = logits(heads, x)
        known = _own(z, state.folds[part.positions]) / judging.temperature
        target = (known + given[part.labels][:, None]).softmax(dim=2)
        trains = _seen(state.folds[part.positions], heads)
        trains = (trains / trains.sum(dim=0).clamp(min=1))[:, None, :, None]
        logs = z.log_softmax(dim=3)
        residuals = (logs.exp() - target[:, :, None]) * trains
        heads = stepped(heads, x, residuals, local.lr, judging.l2)
        right = target.mean(dim=1).gather(1, part.labels[:, None])
        weights[part.positions] = right.squeeze(1)
        recent[part.positions] = known.mean(dim=1).log_softmax(dim=1)
        losses.append(-(trains * target[:, :, None] * logs).sum())
    mean = torch.stack(losses).mean() / (heads.shape[0] * heads.shape[1])
    return _Trained(heads, float(mean), weights, recent)


def _seen(folds: Tensor, heads: Tensor) -> Tensor:
    """Return [n, F]: 1 where a head trains on a sample; with one fold nothing is held out."""
    if heads.shape[1] == 1:
        return heads.new_ones(len(folds), 1)
    return (folds[:, None] != torch.arange(heads.shape[1], device=folds.device)).to(heads.dtype)
