"""Local steps: Algorithm 1, lines 5-8."""

from __future__ import annotations

from dataclasses import replace

from fedsift.client.inputs import batch_generator, point
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.errors import InputError
from fedsift.messages import Request
from fedsift.problem.protocol import part_of
from fedsift.problem.sgd import LocalSteps, local_sgd


def train(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:
    """Take T local steps from y; reply with the change of y and the mean loss."""
    x, y, state = point(client, state, request)
    trained = shared.trained
    if trained is None:
        local, source = request.read(LocalSteps), batch_generator(client, request)
        trained = local_sgd(client.problem, x, y, client.batch, local, source)
    return Outcome({"update": trained.y - y}, {"loss": float(trained.loss)}, state)


def train_kept(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:
    """Preprocess: local steps on the samples of positive weight only."""
    x, _, _ = point(client, state, request)
    kept = part_of(client.batch, x.nonzero().squeeze(1))
    if len(kept) < client.fewest.kept:
        raise InputError(
            f"it has {len(kept)} samples of positive weight to train on, fewer than "
            f"{client.fewest.kept}; leave it out"
        )
    trained = train(replace(client, batch=kept), state, request, shared)
    return trained._replace(scalars={**trained.scalars, "kept": len(kept)})
