"""What a client has trained, compressed: Top-k of the update and of what was left out before.

    c_m = C(u_m + e_m),   e_m' = u_m + e_m − c_m

u_m is the change of the model by the local steps, C keeps the largest d / rate numbers in 8 bits
each. The request says how; an action knows nothing of it. e_m belongs to an epoch of the run, and
is dropped in another: where a round is done again, what was left out of the first try is not owed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedsift.client.state import ClientState, Outcome
from fedsift.compress import TopK
from fedsift.messages import Request, scalar

UPDATE = "update"
SMALL = 1000  # numbers: fewer travel as they are


@dataclass(frozen=True)
class UpdateCompression:
    """How a client compresses its update."""

    rate: float = scalar("update_rate")
    bits: int = scalar("update_bits")
    epoch: int = scalar("update_epoch")


def with_compressed_update(outcome: Outcome, request: Request) -> Outcome:
    """Compress the update of an outcome where the request asks for that."""
    update = outcome.arrays.get(UPDATE)
    if "update_rate" not in request.scalars or not isinstance(update, Tensor):
        return outcome
    if update.numel() < SMALL:
        return outcome
    asked, wanted = request.read(UpdateCompression), update.flatten()
    error = _owed(outcome.state, asked.epoch)
    if error is not None and error.shape == wanted.shape:
        wanted = wanted + error
    payload = TopK.at_rate(len(wanted), asked.rate, asked.bits).compress(wanted)
    left = wanted.index_put((payload.indices,), wanted[payload.indices] - payload.values)
    if not bool(torch.isfinite(left).all()):  # a diverged update is sent, but not remembered
        left = torch.zeros_like(left)
    state = replace(outcome.state, update_error=left, update_epoch=torch.tensor([asked.epoch]))
    return Outcome({**outcome.arrays, UPDATE: payload}, outcome.scalars, state)


def _owed(state: ClientState, epoch: int) -> Tensor | None:
    known = state.update_epoch is not None and int(state.update_epoch) == epoch
    return state.update_error if known else None
