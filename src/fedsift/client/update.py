"""What a client sends back, compressed: Top-k of it and of what was left out before.

    c_m = C(u_m + e_m),   e_m' = u_m + e_m − c_m

u_m is the change of the model by the local steps, or the client's part of the step of a shared x;
C keeps the largest d / rate numbers in 8 bits each. The request says how; an action knows nothing
of it. e_m belongs to an epoch of the run, and is dropped in another: where a round is done again,
what was left out of the first try is not owed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedsift.client.state import ClientState, Outcome
from fedsift.compress import Sparse, TopK
from fedsift.messages import Request, scalar

UPDATE = "update"
ERRORS = {  # where the state keeps what was left out of an array
    UPDATE: "update_error",
    "cross": "cross_error",
    "hypergradient": "cross_error",
    "outer_x": "outer_error",
}
SMALL = 1000  # numbers: fewer travel as they are


@dataclass(frozen=True)
class UpdateCompression:
    """How a client compresses what it sends back."""

    rate: float = scalar("update_rate")
    bits: int = scalar("update_bits")
    epoch: int = scalar("update_epoch")


def with_compressed_update(outcome: Outcome, request: Request) -> Outcome:
    """Compress the update and the parts of x of an outcome where the request asks for that."""
    if "update_rate" not in request.scalars:
        return outcome
    asked, arrays, kept = request.read(UpdateCompression), dict(outcome.arrays), {}
    for name, field in ERRORS.items():
        array = arrays.get(name)
        if not isinstance(array, Tensor) or array.numel() < SMALL:
            continue
        if (
            name != UPDATE and array.dim() != 1
        ):  # a sketch of x has columns of another base each time
            continue
        error = _owed(outcome.state, field, asked.epoch)
        arrays[name], kept[field] = _compressed(array.flatten(), error, asked)
    if not kept:
        return outcome
    epoch = torch.tensor([asked.epoch])
    state = replace(outcome.state, **kept, update_epoch=epoch)
    return Outcome(arrays, outcome.scalars, state)


def _compressed(
    wanted: Tensor, error: Tensor | None, asked: UpdateCompression
) -> tuple[Sparse, Tensor]:
    """Return what is sent of an array, and what is left out of it."""
    if error is not None and error.shape == wanted.shape:
        wanted = wanted + error
    payload = TopK.at_rate(len(wanted), asked.rate, asked.bits).compress(wanted)
    left = wanted.index_put((payload.indices,), wanted[payload.indices] - payload.values)
    if not bool(torch.isfinite(left).all()):  # a diverged update is sent, but not remembered
        left = torch.zeros_like(left)
    return payload, left


def _owed(state: ClientState, field: str, epoch: int) -> Tensor | None:
    known = state.update_epoch is not None and int(state.update_epoch) == epoch
    error: Tensor | None = getattr(state, field) if known else None
    return error
