"""Requests and replies as named byte strings, each in the wire format of ``compress.wire``.

A message is a flat mapping ``name -> bytes``, because that is what a transport can carry:

| name | holds |
|---|---|
| `.envelope` | scalars; of a request also action, round, versions, of a reply client and N_m |
| `y`, `v` ... | an array |
| `v+` | the difference to the previous version, of an array that the client keeps |
| `.error` | the sentence of a client that could not reply |
| `.about` | which request this is or replies to: run, round, number, action |

The sizes of envelope and arrays add up to what ``Request.num_bytes`` and ``Reply.num_bytes`` say.
Names, ``.about`` and ``.error`` are not counted: they belong to the transport's own frame.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from fedsift.client import ACTIONS
from fedsift.compress import Payload, Sparse, wire
from fedsift.errors import WireError
from fedsift.messages import Reply, Request, Scalar, Versioned

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
    envelope: dict[str, Scalar] = {"action": request.action, "round": request.round}
    parts: Parts = {}
    for name, array in request.arrays.items():
        if isinstance(array, Versioned):
            envelope[_version(name)] = array.version
            sent = array.sent((known or {}).get(name))
            parts[f"{name}+" if sent is array.difference else name] = wire.encode(sent)
        else:
            parts[name] = wire.encode(array)
    return {ENVELOPE: wire.encode({**envelope, **request.scalars}), **parts}


def decode_request(
    parts: Mapping[str, bytes], kept: Mapping[str, Kept]
) -> tuple[Request, dict[str, Kept]]:
    """Return the request with its arrays whole, and the versioned arrays to keep from now on."""
    arrays, scalars = _arrays(parts), _scalars(parts)
    action, number = scalars.pop("action", None), scalars.pop("round", None)
    if action not in ACTIONS or type(number) is not int:
        raise WireError(
            f"a request has the action {action!r} and the round {number!r}; one is unknown"
        )
    whole: dict[str, Payload] = {}
    now = dict(kept)
    for label, array in arrays.items():
        name = label.removesuffix("+")
        version = scalars.pop(_version(name), None)
        if version is None:
            if label != name:
                raise WireError(f"the difference of '{name}' came without a version")
            whole[name] = array
            continue
        value = _advance(name, array, int(version), kept) if label != name else array
        if not isinstance(value, Tensor):
            raise WireError(f"'{name}' has a version but is compressed; send it whole")
        whole[name] = value
        now[name] = Kept(value, int(version))
    return Request(str(action), number, whole, scalars), now


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


def _version(name: str) -> str:
    return f"{name}_version"


def _advance(name: str, difference: Payload, version: int, kept: Mapping[str, Kept]) -> Tensor:
    """Return the last version plus the difference, as the server has done it."""
    last = kept.get(name)
    if last is None or last.version != version - 1:
        has = "none" if last is None else f"version {last.version}"
        raise WireError(
            f"version {version} of '{name}' came as a difference but the client has {has} and not "
            f"version {version - 1}"
        )
    if isinstance(difference, Sparse) and difference.length == len(last.value):
        zeros = difference.values.new_zeros(difference.length)
        return last.value + zeros.index_put_((difference.indices,), difference.values)
    if isinstance(difference, Tensor) and difference.shape == last.value.shape:
        return last.value + difference
    raise WireError(f"the difference of '{name}' does not fit the previous version")


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
