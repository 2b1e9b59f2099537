"""Requests and replies as named byte strings, each in the wire format of ``compress.wire``.

A message is a flat mapping ``name -> bytes``, because that is what a transport can carry:

| name | holds |
|---|---|
| `.envelope` | scalars; of a request also action, round, versions, of a reply client and N_m |
| `y`, `v` ... | an array |
| `y+` | the difference to the previous version, of an array that the client keeps |
| `y=` | the numbers of it that changed since the version that the client has |
| `delta`, `outer_gradient` | what a step of v needs, by which the client makes the next v itself |
| `.error` | the sentence of a client that could not reply |
| `.about` | which request this is or replies to: run, round, number, action |

The sizes of envelope and arrays add up to what ``Request.num_bytes`` and ``Reply.num_bytes`` say.
Names, ``.about`` and ``.error`` are not counted: they belong to the transport's own frame.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedsift.client import ACTIONS
from fedsift.compress import Payload, Sketch, Sparse, wire
from fedsift.errors import WireError
from fedsift.federation.compressed import advanced
from fedsift.messages import Reply, Request
from fedsift.versioned import DELTA, DIFFERENCE, RIGHT, SINCE, Delivery, Scalar, Step

Parts = dict[str, bytes]

ENVELOPE, ERROR, REQUEST_ID = ".envelope", ".error", ".about"
LIMIT = 2**31  # bytes; a larger message is refused unread


@dataclass(frozen=True)
class RequestId:
    """(run, round, number) identifies a request; ``number`` counts the exchanges of a round."""

    run: str
    round: int
    number: int
    action: str

    def encode(self) -> bytes:
        """Return the id as JSON."""
        return json.dumps(vars(self), sort_keys=True).encode()

    @classmethod
    def decode(cls, parts: Mapping[str, bytes]) -> RequestId:
        """Read the id from a message."""
        try:
            found = cls(**json.loads(parts[REQUEST_ID].decode()))
            texts, numbers = (found.run, found.action), (found.round, found.number)
            fits = all(type(t) is str for t in texts) and all(type(n) is int for n in numbers)
        except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
            fits = False
        if not fits:
            raise WireError(
                "a message does not identify its request, so it does not come from fedsift"
            )
        return found


@dataclass(frozen=True, eq=False)
class Kept:
    """A versioned array as a client holds it."""

    value: Tensor
    version: int


def encode_request(request: Request, known: Mapping[str, int] | None = None) -> Parts:
    """Return the request as it travels to a client that has these versions."""
    return encoded(request.delivery(known))


def encoded(delivery: Delivery) -> Parts:
    """Return what travels to a client as bytes."""
    parts = {label: wire.encode(payload) for label, payload in delivery.parts.items()}
    return {ENVELOPE: wire.encode(delivery.envelope), **parts}


def decode_request(
    parts: Mapping[str, bytes], kept: Mapping[str, Kept], most: int | None = None
) -> tuple[Request, dict[str, Kept]]:
    """Return the request with its arrays whole, and the versioned arrays to keep from now on.

    A few bytes can stand for a vector of any length; above ``most`` numbers they are refused.
    """
    arrays, scalars = _arrays(parts), _scalars(parts)
    for label, array in arrays.items():
        if most is not None and isinstance(array, (Sparse, Sketch)) and array.length > most:
            raise WireError(f"'{label}' stands for {array.length} numbers; {most} are allowed here")
    action, number = scalars.pop("action", None), scalars.pop("round", None)
    if action not in ACTIONS or type(number) is not int:
        raise WireError(
            f"a request has the action {action!r} and the round {number!r}; one is unknown"
        )
    now = dict(kept)
    versions = _versions(scalars)
    steps = {name: lr for name in versions if (lr := scalars.pop(f"{name}_lr", None)) is not None}
    for name, version in sorted(versions.items(), key=lambda one: one[0] in steps):  # steps last
        shape, last = scalars.pop(f"{name}_shape", None), kept.get(name)
        if name in steps:
            value = _stepped(name, scalars, steps[name], version, last, now)
        else:
            value = _received(name, arrays, version, last)
        now[name] = Kept(_shaped(name, value, shape), version)
        arrays[name] = now[name].value
    for label in arrays:
        if label[-1:] in _ENDS:
            raise WireError(f"a part of '{label[:-1]}' came without a version")
    return Request(str(action), number, arrays, scalars), now


def encode_reply(reply: Reply) -> Parts:
    """Return the reply as it travels."""
    envelope = {"client": reply.client, "num_samples": reply.num_samples, **reply.scalars}
    parts = {ENVELOPE: wire.encode(envelope)}
    parts |= {name: wire.encode(array) for name, array in reply.arrays.items()}
    return parts if reply.error is None else {**parts, ERROR: reply.error.encode()}


def decode_reply(parts: Mapping[str, bytes]) -> Reply:
    """Read a reply; refuse what is not one."""
    arrays, scalars = _arrays(parts), _scalars(parts)
    client, samples = scalars.pop("client", None), scalars.pop("num_samples", None)
    if type(client) is not int or type(samples) is not int:
        raise WireError("a reply does not name its client and its number of samples")
    error = parts[ERROR].decode(errors="replace") if ERROR in parts else None
    return Reply(client, samples, arrays, scalars, error)


def num_bytes(parts: Mapping[str, bytes]) -> int:
    """Return the size of envelope and arrays."""
    return sum(len(data) for name, data in parts.items() if name not in {REQUEST_ID, ERROR})


_ENDS = (DIFFERENCE, SINCE)
_VERSION = "_version"


def _versions(scalars: dict[str, Scalar]) -> dict[str, int]:
    """Take the versions of the arrays that the client keeps out of the scalars."""
    named = [label for label in scalars if label.endswith(_VERSION)]
    found = {label.removesuffix(_VERSION): scalars.pop(label) for label in named}
    for name, version in found.items():
        if type(version) is not int:
            raise WireError(f"'{name}' has the version {version!r}; it must be a whole number")
    return found  # type: ignore[return-value]


def _received(name: str, arrays: dict[str, Payload], version: int, last: Kept | None) -> Tensor:
    """Return an array that the client keeps, from the one that it has and what came of it."""
    came = [end for end in ("", *_ENDS) if name + end in arrays]
    if len(came) > 1:
        raise WireError(f"'{name}' came in two forms; send one of them")
    end = came[0] if came else None
    if end == "":
        whole = arrays.pop(name)
        if isinstance(whole, Sketch):
            raise WireError(f"'{name}' has a version but came as a sketch; send it whole")
        return whole.dense() if isinstance(whole, Sparse) else whole
    needs = {None: version, DIFFERENCE: version - 1}.get(end)
    if last is None or last.version != (last.version if end == SINCE else needs):
        has = "none" if last is None else f"version {last.version}"
        raise WireError(
            f"version {version} of '{name}' came as a difference but the client has {has} and not "
            f"version {needs}"
        )
    if end is None:
        return last.value
    part = arrays.pop(name + end)
    if not isinstance(part, Sparse) or part.length != last.value.numel():
        raise WireError(f"the difference of '{name}' does not fit the previous version")
    if part.values.dtype != last.value.dtype:
        raise WireError(f"the difference of '{name}' is of another type than the previous version")
    return advanced(last.value, part, add=end == DIFFERENCE)


def _stepped(
    name: str,
    scalars: dict[str, Scalar],
    lr: Scalar,
    version: int,
    last: Kept | None,
    kept: Mapping[str, Kept],
) -> Tensor:
    """Return an array by the step that the server has taken."""
    damping, from_zero = (scalars.pop(f"{name}_{part}", None) for part in ("damping", "from_zero"))
    if not isinstance(lr, float) or not isinstance(damping, float):
        raise WireError(f"a step of '{name}' came without its size; send '{name}' whole")
    needs = (RIGHT,) if from_zero else (RIGHT, DELTA)
    if missing := [part for part in needs if part not in kept]:
        raise WireError(f"a step of '{name}' needs '{missing[0]}', which the client does not have")
    right = kept[RIGHT].value
    zero = torch.zeros_like(right)
    if not from_zero and (last is None or last.version != version - 1):
        raise WireError(f"a step to version {version} of '{name}' came without the version before")
    before = zero if from_zero or last is None else last.value
    delta = zero if from_zero else kept[DELTA].value
    if not right.shape == before.shape == delta.shape or right.dtype != before.dtype:
        raise WireError(f"a step of '{name}' does not fit the previous version")
    return Step(delta, right, lr, damping).taken(before)


def _shaped(name: str, value: Tensor, shape: Scalar) -> Tensor:
    if shape is None:
        return value
    try:
        return value.reshape([int(n) for n in str(shape).split(",")])
    except (ValueError, RuntimeError):
        raise WireError(f"'{name}' does not have the shape {shape!r}") from None


def _arrays(parts: Mapping[str, bytes]) -> dict[str, Payload]:
    if sum(map(len, parts.values())) > LIMIT:
        raise WireError(f"a message is over the limit of {LIMIT} bytes")
    arrays: dict[str, Payload] = {}
    for name, data in parts.items():
        if name.startswith("."):
            continue
        value = wire.decode(data)
        if isinstance(value, dict):
            raise WireError(f"'{name}' is a set of scalars, not an array")
        arrays[name] = value
    return arrays


def _scalars(parts: Mapping[str, bytes]) -> dict[str, Scalar]:
    value = wire.decode(parts.get(ENVELOPE, b""))
    if not isinstance(value, dict):
        raise WireError("a message has an array in place of its envelope")
    return value
