"""Secure summation at a client: keys and shares, a masked reply, shares of who was absent.

    keys     draw a secret; reply with the public keys of the next sums
    shares   seal shares of this client's one-time secrets for every member
    (any)    the reply of any action, weighted by N_m / N, as one masked vector (``summed``)
    reveal   of every member one share: b_u of those that replied, s_u of those that did not

A client reveals for a sum once only, never both shares of a member, and never where fewer than
t members replied. A sum whose largest numbers are not known yet is not masked: the client replies
with their sizes, as powers of two, and does the action again when it is asked with bounds. Where
replies have noise (``private.py``) these sizes are those of the bounds and the noise, not of the
numbers, and every member weighs the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fedsift.client.private import reach
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.compress import Sketch
from fedsift.errors import InputError
from fedsift.messages import Request, scalar
from fedsift.secure import SHARE, FixedPoint, OneTimeKeys, exponent, mask_of, needed, prg, split

Numbers = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

CLOSE = 4  # powers of two: what is masked must neither be cut nor lose the noise by rounding
FEWEST = 3  # members: of two, each would know the other's numbers from the mean


@dataclass(frozen=True)
class KeyRequest:
    """How many sums the keys are for."""

    sums: int


@dataclass(frozen=True)
class SumRequest:
    """Which sum a reply is a part of, and Σ N_m of those that were asked."""

    number: int = scalar("sum_number")
    total: int = scalar("sum_total")


@dataclass(frozen=True)
class SumNumber:
    """Which sum is to be revealed."""

    number: int = scalar("sum_number")


def keys(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:  # noqa: ARG001
    """Draw a secret; reply with S_u and C_u of every sum."""
    secret, count = os.urandom(32), request.read(KeyRequest).sums
    if not 1 <= count <= 1024:
        raise InputError(f"the server asks for the keys of {count} sums; 1 to 1024 are allowed")
    publics = b"".join(part for n in range(count) for part in OneTimeKeys(secret, n).publics)
    state = replace(state, secret=_tensor(secret), sums=torch.tensor([-1, -1]))
    return Outcome({"publics": _tensor(publics).reshape(count, 2, 32)}, {}, state)


def shares(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:  # noqa: ARG001
    """Seal shares of s_u and b_u for every member, for every sum."""
    members, publics = _members(client, request), request.array("publics")
    secret = _secret(state)
    if publics.ndim != 4 or publics.shape[0] != len(members):
        raise InputError("the server's list of public keys does not fit its list of members")
    sealed = b""
    for number in range(publics.shape[1]):
        own = OneTimeKeys(secret, number)
        parts = [split(s, needed(len(members)), len(members), os.urandom) for s in _secrets(own)]
        for place, both in enumerate(zip(*parts, strict=True)):
            sealed += own.seal(_bytes(publics[place, number, 1]), b"".join(both))
    shape = (publics.shape[1], len(members), -1)
    return Outcome({"sealed": _tensor(sealed).reshape(shape)}, {}, state)


def reveal(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:  # noqa: ARG001
    """Return one share of every member: b_u where it replied, s_u where it did not."""
    members, number = _members(client, request), request.read(SumNumber).number
    present = request.array("present").bool().tolist()
    sealed, envelopes = request.array("sealed"), request.array("envelopes")
    place, secret = members.index(client.id), _secret(state)
    masked, revealed = (-1, -1) if state.sums is None else state.sums.tolist()
    if number != masked or number == revealed:
        raise InputError(f"sum {number} was not masked last, or its shares were revealed before")
    if len(present) != len(members) or sum(present) < needed(len(members)) or not present[place]:
        raise InputError(
            f"{sum(present)} of {len(members)} members are said to have replied; shares are "
            f"revealed where at least {needed(len(members))} did, this client among them"
        )
    own, found = OneTimeKeys(secret, number), b""
    for u, here in enumerate(present):
        both = own.unseal(_bytes(envelopes[u]), _bytes(sealed[u, place]))
        found += both[SHARE:] if here else both[:SHARE]
    state = replace(state, sums=torch.tensor([masked, number]))
    return Outcome({"revealed": _tensor(found).reshape(len(members), SHARE)}, {}, state)


def summed(client: Client, before: ClientState, outcome: Outcome, request: Request) -> Outcome:
    """Return the outcome as a part of a sum, where the request asks for one."""
    if "sum_total" not in request.scalars:
        return outcome
    asked, members = request.read(SumRequest), _members(client, request)
    layout, pieces = _pieces(outcome)
    private = "dp_noise" in request.scalars
    share = len(client.batch) / max(asked.total, len(client.batch))
    share = 1 / len(members) if private else share
    pieces = [share * piece for piece in pieces]
    largest = _reaches(request, layout, pieces, share) if private else pieces
    sizes = {"exponents": torch.tensor([exponent(piece) for piece in largest])}
    bounds = request.arrays.get("bounds")
    if not isinstance(bounds, Tensor) or len(bounds) != len(pieces):
        return Outcome({**sizes}, {"layout": layout}, before)
    if private and not bool(((bounds - sizes["exponents"]).abs() <= CLOSE).all()):
        raise InputError("the bounds of a sum with noise are those that clients state")
    if before.sums is None or asked.number <= int(before.sums[0]):
        raise InputError(f"sum {asked.number} has no keys left; the server must ask for new ones")
    encoded = [
        FixedPoint(bound, len(members)).encode(piece)
        for bound, piece in zip(bounds.tolist(), pieces, strict=True)
    ]
    plain, own = np.concatenate(encoded), OneTimeKeys(_secret(before), asked.number)
    publics, place = request.array("agreements"), members.index(client.id)
    others = {
        True: [_bytes(p) for p in publics[place + 1 :]],
        False: [_bytes(p) for p in publics[:place]],
    }
    masked = plain + prg(own.own_seed, len(plain)) + mask_of(len(plain), own.agreement, others)
    state = replace(
        outcome.state, secret=before.secret, sums=torch.tensor([asked.number, int(before.sums[1])])
    )
    arrays = {"masked": _tensor(masked.astype("<u4").tobytes()), **sizes}
    return Outcome({**arrays}, {"layout": layout}, state)


def _pieces(outcome: Outcome) -> tuple[str, list[Numbers]]:
    """Return what a reply is made of, and its numbers: arrays, then each scalar by itself."""
    rows, pieces = [], []
    for name, payload in sorted(outcome.arrays.items()):
        table = payload.table if isinstance(payload, Sketch) else payload
        if not isinstance(table, Tensor) or not table.is_floating_point():
            raise InputError(
                f"'{name}' cannot be summed under masks: its places differ between clients; use "
                "compressor = count-sketch and update_rate = 1 with secure_sum"
            )
        sketch = [payload.length, payload.seed] if isinstance(payload, Sketch) else []
        rows.append([name, str(table.dtype).removeprefix("torch."), list(table.shape), *sketch])
        pieces.append(table.detach().cpu().flatten().double().numpy())
    for name, value in sorted(outcome.scalars.items()):
        if isinstance(value, str) or value is None:
            raise InputError(f"'{name}' is no number and cannot be summed")
        rows.append([name])
        pieces.append(np.array([float(value)]))
    return json.dumps(rows), pieces


def _reaches(
    request: Request, layout: str, pieces: Sequence[Numbers], share: float
) -> list[Numbers]:
    """Return the largest number that each piece can have: of noised parts it is no secret."""
    names = [row[0] for row in json.loads(layout)]
    return [
        np.array([share * reach(request, name, piece.size)])
        for name, piece in zip(names, pieces, strict=True)
    ]


def _members(client: Client, request: Request) -> list[int]:
    members: list[int] = request.array("members").tolist()
    if len(members) < FEWEST or client.id not in members or len(set(members)) < len(members):
        raise InputError(
            f"a sum needs {FEWEST} or more members, each once, and this client among them"
        )
    return members


def _secret(state: ClientState) -> bytes:
    if state.secret is None:
        raise InputError("this client has no keys; the server must ask for them first")
    return _bytes(state.secret)


def _secrets(own: OneTimeKeys) -> tuple[bytes, bytes]:
    return own.agreement, own.own_seed


def _tensor(data: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(data, np.uint8).copy())


def _bytes(data: Tensor) -> bytes:
    return data.cpu().numpy().tobytes()
