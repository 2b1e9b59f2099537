"""A federation that sends differences: models down, updates up. No method knows of it.

    down    ŷ_k = ŷ_k−1 + C(y_k − ŷ_k−1)         what all clients have; C: Top-k, values in 8 bits
    up      c_m = C(u_m + e_m)                   parts of x alike (``client/update.py``)
    server  y_k+1 = y_k + Σ_m (N_m / Σ N) c_m    by the method, as without compression

The server's y is exact, so what C leaves out is in the next difference: the error feedback is in
the difference itself. This holds for every dense array of a request that is not small, whatever it
is called (y, v, a shared x, heads).

A client that missed requests gets the numbers that changed since, or the whole where that is
shorter (``fedsift.versioned``). An array that did not change since it was last sent is not sent
again, so an x or y that several exchanges of a round need travels once; at rate 1 too, where the
numbers that did change travel as they are.

The whole travels in 16 bits the first time, and where what clients have is farther from the new
array than zero is; an array that a method sends by difference (v) begins anew from zero then. A
model that is only asked about, not trained on, goes whole and is not kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedsift.client.update import ERRORS, SMALL, UpdateCompression
from fedsift.compress import Payload, Sparse, TopK
from fedsift.compress.rounding import WHOLE, rounded
from fedsift.federation.layer import Layer
from fedsift.messages import (
    ClientId,
    Federation,
    Reply,
    Request,
    Scalar,
    Sendable,
    scalars_of,
)
from fedsift.versioned import DELTA, RIGHT, ByDifference, ByStep, SentStep, Step, Versioned

ASKED_ABOUT = ("count", "keep", "agree")  # actions with a model that clients do not go on from
EPOCH = "epoch"


@dataclass(frozen=True)
class Rates:
    """Numbers per number sent, of updates up and of models down, and the bits of a value."""

    update: float = 1.0
    model: float = 1.0
    bits: int = 8


@dataclass(frozen=True, eq=False)
class Sent:
    """What clients have of an array.

    ``changed`` is the version in which each number last changed, ``digest`` that of the exact array
    which this stands for.
    """

    value: Tensor
    changed: Tensor
    version: int
    digest: Tensor

    @classmethod
    def of(cls, name: str, arrays: Mapping[str, Tensor]) -> Sent | None:
        """Read it from a server's state."""
        if name not in arrays:
            return None
        parts = {part: arrays[f"{name}.{part}"] for part in ("changed", "version", "digest")}
        return cls(arrays[name], parts["changed"], int(parts["version"]), parts["digest"].cpu())

    def arrays(self, name: str) -> dict[str, Tensor]:
        """Return it as a part of a server's state."""
        version = torch.tensor(self.version)
        parts = {"changed": self.changed, "version": version, "digest": self.digest}
        return {name: self.value, **{f"{name}.{part}": array for part, array in parts.items()}}


class CompressedFederation(Layer):
    """One round with another federation; ``sent`` is what its clients have by now."""

    def __init__(
        self, inner: Federation, rates: Rates = Rates(), sent: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__(inner)
        self.rates = rates
        self._sent = dict(sent or {})
        self._updated: set[tuple[str, ClientId]] = set()

    def sent(self) -> Mapping[str, Tensor]:
        """Return what the clients have, as a part of a server's state."""
        return dict(self._sent)

    def ask(self, request: Request, clients: Sequence[ClientId]) -> list[Reply]:
        """Ask these clients; updates are dense in what is returned."""
        plain = request.plain()
        arrays = {name: self._packed(request, name) for name in request.arrays}
        scalars = {**request.scalars, **self._asked(request, clients)}
        replies = self.inner.ask(replace(request, arrays=arrays, scalars=scalars), clients)
        self._updated |= {(request.action, r.client) for r in replies if ERRORS.keys() & r.arrays}
        return [_unpacked(reply, plain) for reply in replies]

    def _packed(self, request: Request, name: str) -> Sendable:
        """Return an array of a request as it is sent."""
        given, rate = request.arrays[name], self.rates.model
        bits = self.rates.bits if rate > 1 else WHOLE
        steady = isinstance(given, ByDifference)
        array = given.value if isinstance(given, ByDifference | ByStep) else given
        if not isinstance(array, Tensor) or not array.is_floating_point():
            return given
        if isinstance(given, ByDifference):
            rate = max(rate, given.rate)
        elif array.numel() < SMALL:
            return array
        if request.action in ASKED_ABOUT:
            return array
        if rate == 1:
            step = given.step if isinstance(given, ByStep) else None
            return self._exact(name, array, step)
        last = Sent.of(name, self._sent)
        versioned, sent = next_version(array, last, rate, bits, steady=steady)
        self._sent |= sent.arrays(name)
        return versioned

    def _exact(self, name: str, array: Tensor, step: Step | None = None) -> Versioned:
        """Return an array that arrives as it is; a step that leads to it may travel instead."""
        last = Sent.of(name, self._sent)
        versioned, sent = exact_version(array, last)
        self._sent |= sent.arrays(name)
        if step is None or (last is not None and versioned.version == last.version):
            return versioned
        zero = torch.zeros_like(array)
        before = zero if last is None else last.value
        from_zero = same_bits(replace(step, delta=zero).taken(zero), array)
        if not from_zero and not same_bits(step.taken(before), array):
            return versioned
        right = self._exact(RIGHT, step.right)
        delta = right if from_zero else self._exact(DELTA, step.delta)
        by = SentStep(delta, right, step.lr, step.damping, from_zero)
        return replace(versioned, step=by)

    def _asked(self, request: Request, clients: Sequence[ClientId]) -> dict[str, Scalar]:
        """Return how clients compress their updates."""
        if self.rates.update == 1:
            return {}
        epoch = int(self._sent.get(EPOCH, torch.tensor(0)))
        if any((request.action, client) in self._updated for client in clients):
            epoch += 1  # the round is done again
            self._updated.clear()
        self._sent[EPOCH] = torch.tensor(epoch)
        return scalars_of(UpdateCompression(self.rates.update, self.rates.bits, epoch))


def next_version(
    array: Tensor, last: Sent | None, rate: float, bits: int = 8, *, steady: bool = False
) -> tuple[Versioned, Sent]:
    """Return the array as clients get it, and what they have then.

    ``steady``: it may begin anew from zero; another array then goes whole.
    """
    digest, version = _digest(array), 1 if last is None else last.version + 1
    if last is not None and last.value.shape != array.shape:
        last = None
    if last is not None and torch.equal(last.digest, digest):
        return Versioned(last.value, last.version, changed=last.changed), last
    wanted = array.flatten() if last is None else (array - last.value).flatten()
    if last is None or float(wanted.norm()) > float(array.norm()):
        value, whole = _begun(array, rate, bits) if steady else _whole(array, bits)
        changed = torch.full((array.numel(),), version, dtype=torch.int32, device=array.device)
        sent = Sent(value, changed, version, digest)
        return Versioned(value, version, changed=changed, whole=whole), sent
    difference = TopK.at_rate(len(wanted), rate, bits).compress(wanted)
    value = advanced(last.value, difference, add=True)
    changed = last.changed.index_fill(0, difference.indices, version)
    sent = Sent(value, changed, version, digest)
    return Versioned(value, version, difference, changed), sent


def exact_version(array: Tensor, last: Sent | None) -> tuple[Versioned, Sent]:
    """Return an array of which the numbers that changed travel as they are, and what clients have.

    Its ``digest`` is left out: what clients have is the array itself.
    """
    version = 1 if last is None else last.version + 1
    if last is None or last.value.shape != array.shape or last.value.dtype != array.dtype:
        changed = torch.full((array.numel(),), version, dtype=torch.int32, device=array.device)
    else:
        differs = (bits_of(array) != bits_of(last.value)).flatten()
        if not bool(differs.any()):
            return Versioned(last.value, last.version, changed=last.changed), last
        changed = last.changed.masked_fill(differs, version)
    value = array.detach().clone()  # a method may go on working in the array itself
    at = value.flatten().nonzero().squeeze(1)
    whole = Sparse(at, value.flatten()[at], value.numel()) if 2 * len(at) < value.numel() else None
    if whole is not None and not same_bits(whole.dense(), value.flatten()):
        whole = None  # a zero has a sign
    sent = Sent(value, changed, version, changed.new_zeros(0, dtype=torch.uint8))
    return Versioned(value, version, changed=changed, whole=whole), sent


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Tell if two arrays are the same to the bit."""
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(bits_of(a), bits_of(b))


def bits_of(array: Tensor) -> Tensor:
    """Return the numbers of an array as integers of the same bits: NaN is then equal to itself."""
    kinds = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    return array.contiguous().view(kinds[array.dtype.itemsize])


def advanced(value: Tensor, part: Sparse, *, add: bool) -> Tensor:
    """Return an array with some of its numbers replaced, or added to."""
    flat = value.flatten()
    numbers = flat[part.indices] + part.values if add else part.values
    return flat.index_put((part.indices,), numbers).reshape(value.shape)


def _begun(array: Tensor, rate: float, bits: int) -> tuple[Tensor, Sparse]:
    """Return what is to be sent of an array by those that have nothing of it."""
    at = array.count_nonzero()
    part = TopK.at_rate(array.numel(), rate, bits).compress(array.flatten())
    if not int(at):
        part = Sparse(part.indices[:0], part.values[:0], part.length, part.bits)
    return part.dense().reshape(array.shape), part


def _whole(array: Tensor, bits: int) -> tuple[Tensor, Sparse | None]:
    """Return an array as it arrives, and how it travels if not as it is."""
    flat = array.flatten()
    at = flat.nonzero().squeeze(1)
    values, kept = rounded(flat[at], 16 if bits else WHOLE)
    if kept == WHOLE and 2 * len(at) > len(flat):
        return array, None
    whole = Sparse(at, values, len(flat), kept)
    return whole.dense().reshape(array.shape), whole


def _unpacked(reply: Reply, request: Request) -> Reply:
    """Return a reply whose arrays are dense, in the shape of the array that each is a change of."""
    arrays = [a for a in request.arrays.values() if isinstance(a, Tensor)]
    shapes = {a.numel(): a.shape for a in reversed(arrays)}
    dense: dict[str, Payload] = {}
    for name in ERRORS:
        array = reply.arrays.get(name)
        if not isinstance(array, Sparse):
            continue
        if array.length not in shapes:
            return Reply(
                reply.client, reply.num_samples, error=f"its {name} is that of another model"
            )
        dense[name] = array.dense().reshape(shapes[array.length])
    return replace(reply, arrays={**reply.arrays, **dense})


def _digest(array: Tensor) -> Tensor:
    found = hashlib.sha256(array.detach().cpu().contiguous().numpy().tobytes()).digest()
    return torch.tensor(list(found), dtype=torch.uint8)
