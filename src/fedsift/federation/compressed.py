"""A federation that sends differences: models down, updates up. No method knows of it.

    down    ŷ_k = ŷ_k−1 + C(y_k − ŷ_k−1)         what all clients have; C: Top-k, values in 8 bits
    up      c_m = C(u_m + e_m)                   by the client (``client/update.py``)
    server  y_k+1 = y_k + Σ_m (N_m / Σ N) c_m    by the method, as without compression

The server's y is exact, so what C leaves out is in the next difference: the error feedback is in
the difference itself. This holds for every dense array of a request that is not small, whatever it
is called (y, v, a shared x, heads).

A client that missed requests gets the numbers that changed since, or the whole where that is
shorter (``messages.Versioned``). An array that did not change since it was last sent is not sent
again, so an x or y that several exchanges of a round need travels once.

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

from fedsift.client.update import SMALL, UPDATE, UpdateCompression
from fedsift.compress import Payload, Sparse, TopK
from fedsift.compress.rounding import WHOLE, rounded
from fedsift.messages import (
    ByDifference,
    ClientId,
    Federation,
    Reply,
    Request,
    Scalar,
    Snapshot,
    Traffic,
    Versioned,
    scalars_of,
)

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


class CompressedFederation:
    """One round with another federation; ``sent`` is what its clients have by now."""

    def __init__(
        self, inner: Federation, rates: Rates = Rates(), sent: Mapping[str, Tensor] | None = None
    ) -> None:
        self.inner, self.rates = inner, rates
        self._sent = dict(sent or {})
        self._updated: set[tuple[str, ClientId]] = set()

    @property
    def sizes(self) -> Mapping[ClientId, int]:
        """N_m of every client."""
        return self.inner.sizes

    @property
    def names(self) -> Mapping[ClientId, str]:
        """The names of the clients' sites."""
        return self.inner.names

    @property
    def traffic(self) -> Traffic:
        """All bytes and exchanges so far."""
        return self.inner.traffic

    def snapshot(self) -> Snapshot:
        """Return what a checkpoint must hold of the clients."""
        return self.inner.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a checkpoint."""
        self.inner.restore(snapshot)

    def inspect(self, client: ClientId) -> Mapping[str, Tensor] | None:
        """Return a client's own arrays, where they are in this process."""
        return self.inner.inspect(client)

    def sent(self) -> Mapping[str, Tensor]:
        """Return what the clients have, as a part of a server's state."""
        return dict(self._sent)

    def ask(self, request: Request, clients: Sequence[ClientId]) -> list[Reply]:
        """Ask these clients; updates are dense in what is returned."""
        plain = request.plain()
        arrays = {name: self._packed(request, name) for name in request.arrays}
        scalars = {**request.scalars, **self._asked(request, clients)}
        replies = self.inner.ask(replace(request, arrays=arrays, scalars=scalars), clients)
        self._updated |= {(request.action, r.client) for r in replies if UPDATE in r.arrays}
        return [_unpacked(reply, plain) for reply in replies]

    def _packed(self, request: Request, name: str) -> Payload | Versioned:
        """Return an array of a request as it is sent."""
        given, rate = request.arrays[name], self.rates.model
        bits = self.rates.bits if rate > 1 else WHOLE
        if isinstance(given, ByDifference):
            array, rate = given.value, max(rate, given.rate)
        elif isinstance(given, Tensor) and given.is_floating_point() and given.numel() >= SMALL:
            array = given
        else:
            return given
        if rate == 1 or request.action in ASKED_ABOUT:
            return array
        last, steady = Sent.of(name, self._sent), isinstance(given, ByDifference)
        versioned, sent = next_version(array, last, rate, bits, steady=steady)
        self._sent |= sent.arrays(name)
        return versioned

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
    """Return a reply with its update dense, in the shape of the array that it is a change of."""
    update = reply.arrays.get(UPDATE)
    if not isinstance(update, Sparse):
        return reply
    arrays = (a for a in request.arrays.values() if isinstance(a, Tensor))
    shape = next((a.shape for a in arrays if a.numel() == update.length), None)
    if shape is None:
        return Reply(reply.client, reply.num_samples, error="its update is that of another model")
    dense = update.dense().reshape(shape)
    return replace(reply, arrays={**reply.arrays, UPDATE: dense})


def _digest(array: Tensor) -> Tensor:
    found = hashlib.sha256(array.detach().cpu().contiguous().numpy().tobytes()).digest()
    return torch.tensor(list(found), dtype=torch.uint8)
