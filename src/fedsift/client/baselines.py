"""What the baselines ask of a client: only sums and counts go into a reply.

| action   | baseline       | replies with                              | changes             |
|----------|----------------|-------------------------------------------|---------------------|
| `assess` | `focus`        | as `train`; mean loss of the model sent   |                     |
| `count`  | `preprocess`   | histogram of losses in the server's bins  |                     |
| `keep`   | `preprocess`   | how many samples are kept                 | x, average: 1 or 0  |
| `judge`  | `disagreement` | as `train`; if this model is the best     | average, judge_loss |
| `agree`  | `clean-only`   | nothing                                   | average             |
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from fedsift.algorithms.disagreement import ValidationLoss
from fedsift.algorithms.preprocess import Threshold
from fedsift.client.inputs import point
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.client.training import train
from fedsift.errors import Refused
from fedsift.messages import Request
from fedsift.problem.sample_losses import histogram, keep_below, label_share, sample_losses


def assess(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:
    """Train; add the loss over all samples of the model that was sent."""
    trained = train(client, state, request, shared)
    _, y, _ = point(client, state, request)
    loss = float(sample_losses(client.problem, y, client.batch).mean())
    return trained._replace(scalars={**trained.scalars, "own_loss": loss})


def count(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:  # noqa: ARG001
    """Reply with how many samples have a loss in each of the server's bins."""
    _, y, state = point(client, state, request)
    losses = sample_losses(client.problem, y, client.batch)
    counts = merged(histogram(losses, request.array("edges")), client.fewest.counted)
    return Outcome({"counts": counts}, {}, state)


def keep(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:  # noqa: ARG001
    """Weigh samples 1 where the loss is at most the threshold, else 0."""
    _, y, state = point(client, state, request)
    losses = sample_losses(client.problem, y, client.batch)
    x, found = keep_below(losses, request.read(Threshold).threshold)
    if int(x.sum()) < client.fewest.kept:
        raise Refused(
            f"it would keep fewer than the {client.fewest.kept} samples of the site's policy, and "
            "keeps all it has"
        )
    return Outcome({}, {"kept": int(x.sum()), "found": found}, replace(state, x=x, average=x))


def merged(counts: Tensor, fewest: int) -> Tensor:
    """Return the counts with every bin of fewer samples counted in the next one that is full.

    The last ones, which no full bin follows, are counted in the last full one.
    """
    if fewest <= 1:
        return counts
    out, waiting, last = torch.zeros_like(counts), 0, len(counts) - 1
    for place, number in enumerate(counts.tolist()):
        waiting += number
        if waiting >= fewest:
            out[place], waiting, last = waiting, 0, place
    out[last] += waiting
    return out


def judge(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:
    """Train; weigh labels by the model's agreement if no earlier one had a lower loss."""
    trained = train(client, state, request, shared)
    loss, best = request.read(ValidationLoss).validation_loss, state.judge_loss
    better = best is None or loss < float(best)
    state = trained.state
    if better:
        _, y, _ = point(client, state, request)
        share = label_share(client.problem, y, client.batch)
        state = replace(state, average=share, judge_loss=y.new_tensor([loss]))
    return Outcome(trained.arrays, {**trained.scalars, "judged": better}, state)


def agree(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:  # noqa: ARG001
    """Weigh labels by the agreement of the model that was sent, which no client has trained."""
    _, y, state = point(client, state, request)
    return Outcome({}, {}, replace(state, average=label_share(client.problem, y, client.batch)))
