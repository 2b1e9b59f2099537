"""Local steps: Algorithm 1, lines 5-8."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedsift.client.inputs import batch_generator, point
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.errors import InputError
from fedsift.messages import Request
from fedsift.problem.protocol import InnerLoss, part_of
from fedsift.problem.sgd import LocalSteps, local_sgd

CONTROL = "control"  # c of ``federation/drift.py``, where local steps are corrected


@dataclass(frozen=True)
class Tilted:
    """An inner loss with a linear term: its gradient has ``tilt`` added."""

    problem: InnerLoss
    tilt: Tensor

    def inner_loss(self, x: Tensor, y: Tensor, batch: Any) -> Tensor:
        """Return g_m(x, y) + ⟨tilt, y⟩."""
        return self.problem.inner_loss(x, y, batch) + self.tilt @ y


def train(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:
    """Take T local steps from y; reply with the change of y and the mean loss."""
    x, y, state = point(client, state, request)
    trained, local = shared.trained, request.read(LocalSteps)
    problem: InnerLoss = client.problem
    if CONTROL in request.arrays:
        control = request.array(CONTROL)
        own = torch.zeros_like(control) if state.control is None else state.control
        problem, trained = Tilted(problem, control - own), None
    if trained is None:
        source = batch_generator(client, request)
        trained = local_sgd(problem, x, y, client.batch, local, source)
    if CONTROL in request.arrays:
        moved = own - control + (y - trained.y) / (local.steps * local.lr)
        state = replace(state, control=moved)
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
