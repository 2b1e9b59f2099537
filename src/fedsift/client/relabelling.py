"""FedCorr at a client: relabel by losses and confidence, then train on the labels as they are now.

| which  | samples that get the predicted label, if its p is at least ``CONFIDENT``             |
|--------|---------------------------------------------------------------------------------------|
| `none` | none                                                                                  |
| `some` | those of the highest losses, ``SHARE`` as many as the upper of two groups of losses has |
| `all`  | all                                                                                   |

``targets`` has the labels as they are now, one-hot; ``average`` is 1 where they are still the given
ones. Replies are as `train`'s, with the mean dimension of predictions and two shares of samples.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from fedsift.algorithms.fedcorr import ALL, SOME, Relabelling
from fedsift.client.inputs import point
from fedsift.client.rivals import steps
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.messages import Request
from fedsift.problem.intrinsic_dimension import mean_dimension
from fedsift.problem.mixture import two_groups
from fedsift.problem.robust_losses import soft
from fedsift.problem.sample_losses import probabilities

SHARE, CONFIDENT = 0.5, 0.5  # the paper's
MEASURED = 1000  # samples, at most: distances between all pairs of them


def train_relabelled(
    client: Client,
    state: ClientState,
    request: Request,
    shared: Shared,  # noqa: ARG001
) -> Outcome:
    """Relabel what the request says, then take local steps on the labels as they are now."""
    _, y, state = point(client, state, request)
    settings, given = request.read(Relabelling), client.batch.labels
    p = probabilities(client.problem, y, client.batch)
    labels = given if state.targets is None else state.targets.argmax(dim=1)
    losses = -p.gather(1, labels[:, None]).squeeze(1).clamp(min=torch.finfo(p.dtype).tiny).log()
    wrong = int((two_groups(losses).upper > 0.5).sum())
    relabelled = relabel(labels, p, losses, wrong, settings.which)
    targets = one_hot(relabelled, p.shape[1]).to(p)

    def loss(logits: Tensor, batch: Any) -> Tensor:
        return soft(logits, targets[batch.positions])

    state = replace(state, targets=targets, average=(relabelled == given).to(p.dtype))
    outcome = steps(client, state, request, loss)
    scalars = {
        "dimension": mean_dimension(_some(p)) if settings.measures else 0.0,
        "level": wrong / len(given),
        "relabelled": int((relabelled != given).sum()),
    }
    return outcome._replace(scalars={**outcome.scalars, **scalars})


def relabel(labels: Tensor, p: Tensor, losses: Tensor, wrong: int, which: str) -> Tensor:
    """Return the labels after relabelling; ``wrong`` is the size of the upper group of losses."""
    chosen = torch.full_like(labels, which == ALL, dtype=torch.bool)
    if which == SOME:
        chosen[losses.argsort(descending=True, stable=True)[: round(SHARE * wrong)]] = True
    sure, predicted = p.max(dim=1)
    return torch.where(chosen & (sure >= CONFIDENT), predicted, labels)


def _some(p: Tensor) -> Tensor:
    """Return at most ``MEASURED`` rows, evenly spread."""
    return p[:: max(1, -(-len(p) // MEASURED))]
