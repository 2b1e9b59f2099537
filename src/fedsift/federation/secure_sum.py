"""A federation that sees sums only: secure summation (Bonawitz et al. 2017). No method knows of it.

    1  keys     every client: public keys of the next ``BATCH`` sums
    2  shares   every client: shares of its one-time secrets, sealed for each other client
    3  (any)    every client: its reply, weighted by N_m / N, in fixed point, masked
    4  reveal   those that replied: one share of every member; the masks of the sum go

Steps 1 and 2 are done once for ``BATCH`` sums of the same cohort, so a request takes two
exchanges. Up to a third of the cohort, rounded down, may be absent after step 2. What a method
gets is the N_m-weighted mean in place of every reply: a mean of equal replies is that reply. A
method that needs single replies cannot run on it (``Method.means_only``).

The server must follow the protocol: one that lies about who was absent to different clients could
unmask a sum of less than all (docs/guide/privacy.md).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedsift.compress import Payload, Sketch
from fedsift.federation.layer import Layer
from fedsift.messages import ClientId, Federation, Reply, Request, Scalar, Snapshot
from fedsift.secure import CIPHERTEXT, KEY, SHARE, FixedPoint, combine, mask_of, needed, prg

BATCH = 16  # sums per exchange of keys
HEADROOM = 3  # bits: numbers may grow eightfold from one request to the next before they are cut


@dataclass(frozen=True, eq=False)
class _Keys:
    """What the members of a cohort have agreed on for the next sums; ``next`` is the first."""

    members: tuple[ClientId, ...]
    publics: Tensor  # [member, sum, S or C, 32]
    sealed: Tensor  # [member, sum, receiver, bytes]
    next: int = 0


class SecureSumFederation(Layer):
    """Another federation, of whose replies the server sees the mean.

    ``equal``: every client weighs as if it had the mean number of samples (``client/private.py``).
    """

    def __init__(self, inner: Federation, *, equal: bool = False) -> None:
        super().__init__(inner)
        self.equal = equal
        self._keys: _Keys | None = None
        self._bounds: dict[str, Tensor] = {}

    @property
    def sizes(self) -> Mapping[ClientId, int]:
        """N_m of every client, as far as it counts in a sum."""
        sizes = self.inner.sizes
        if not self.equal:
            return sizes
        return dict.fromkeys(sizes, max(1, round(sum(sizes.values()) / len(sizes))))

    def snapshot(self) -> Snapshot:
        """Return what a checkpoint must hold; keys are made anew, bounds decide how to round."""
        return replace(super().snapshot(), bounds=dict(self._bounds))

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a checkpoint."""
        self._keys, self._bounds = None, dict(snapshot.bounds)
        super().restore(snapshot)

    def ask(self, request: Request, clients: Sequence[ClientId]) -> list[Reply]:
        """Ask these clients; every reply has the mean of all."""
        keys, failed = self._agreed(request.round, tuple(sorted(clients)))
        if keys is None:
            return failed
        number, self._keys = keys.next, replace(keys, next=keys.next + 1)
        scalars = {
            **request.scalars,
            "sum_number": number,
            "sum_total": sum(self.sizes[m] for m in keys.members),
        }
        arrays = {
            **request.arrays,
            "members": torch.tensor(keys.members),
            "agreements": keys.publics[:, number, 0],
        }
        asked = replace(request, arrays=arrays, scalars=scalars)
        replies = self._masked(asked, keys.members)
        here = _alike([r for r in replies if r.error is None and "masked" in r.arrays])
        if len(here) < needed(len(keys.members)):
            self._bounds.pop(request.action, None)
            return _failed(replies, f"too few replied for a sum of {len(keys.members)}") + failed
        total = self._unmasked(request.round, keys, number, here)
        if isinstance(total, str):
            return _failed(replies, total) + failed
        mean = _Mean.of(total, here, self._bounds[request.action], keys.members, self.sizes)
        self._learn(request.action, here)
        present = {r.client for r in here}
        silent = [r for r in replies if r.client not in present]
        summed = [replace(r, arrays=mean.arrays, scalars=mean.scalars) for r in here]
        return sorted([*summed, *_failed(silent, "it was absent"), *failed], key=lambda r: r.client)

    def _masked(self, request: Request, clients: Sequence[ClientId]) -> list[Reply]:
        """Ask for masked replies; where sizes came instead, ask again with bounds by them."""
        replies: list[Reply] = []
        for _ in range(2):
            bounds = self._bounds.get(request.action)
            bounded = {} if bounds is None else {"bounds": bounds}
            replies = self.inner.ask(
                replace(request, arrays={**request.arrays, **bounded}), clients
            )
            if any("masked" in r.arrays for r in replies):
                break
            self._learn(request.action, replies)
        return replies

    def _agreed(self, k: int, clients: tuple[ClientId, ...]) -> tuple[_Keys | None, list[Reply]]:
        """Return keys for a sum over these clients, and the replies of those that have none."""
        known = self._keys
        if known is not None and known.members == clients and known.next < BATCH:
            return known, []
        asked = self.inner.ask(Request("sum-keys", k, {}, {"sums": BATCH}), clients)
        first = _having(asked, "publics", (BATCH, 2, KEY))
        good = [r for r in first if r.error is None]
        if len(good) < 3:
            return None, _failed(first, "a secure sum needs three clients or more")
        members = tuple(r.client for r in good)
        publics = torch.stack([_array(r, "publics") for r in good])
        arrays = {"members": torch.tensor(members), "publics": publics}
        shape = (BATCH, len(members), CIPHERTEXT)
        asked = self.inner.ask(Request("sum-shares", k, arrays, {}), members)
        second = _having(asked, "sealed", shape)
        if any(r.error is not None for r in second):
            absent = [r.client for r in second if r.error is not None]
            left = tuple(m for m in members if m not in absent)
            if len(left) < 3:
                return None, _failed(second, "a secure sum needs three clients or more")
            keys, more = self._agreed(k, left)
            return keys, [*more, *(r for r in (*first, *second) if r.error is not None)]
        sealed = torch.stack([_array(r, "sealed") for r in second])
        return _Keys(members, publics, sealed), [r for r in first if r.error is not None]

    def _learn(self, action: str, replies: Sequence[Reply]) -> None:
        """Remember how large the numbers of an action were."""
        said = [r.arrays.get("exponents") for r in replies]
        found = [s for s in said if isinstance(s, Tensor)]
        sizes = [s for s in found if s.shape == found[0].shape]
        if sizes:
            self._bounds[action] = torch.stack(sizes).amax(dim=0) + HEADROOM

    def _unmasked(self, k: int, keys: _Keys, number: int, here: Sequence[Reply]) -> Any:
        """Return the sum without its masks, or a sentence on why it cannot be had."""
        places = {m: place for place, m in enumerate(keys.members)}
        present = [m in {r.client for r in here} for m in keys.members]
        arrays: dict[str, Any] = {
            "members": torch.tensor(keys.members),
            "present": torch.tensor(present, dtype=torch.uint8),
            "envelopes": keys.publics[:, number, 1],
            "sealed": keys.sealed[:, number],
        }
        request = Request("sum-reveal", k, arrays, {"sum_number": number})
        asked = self.inner.ask(request, [r.client for r in here])
        replies = _having(asked, "revealed", (len(places), SHARE))
        shares = {
            places[r.client] + 1: _array(r, "revealed").numpy() for r in replies if r.error is None
        }
        if len(shares) < needed(len(keys.members)):
            why = next((f" ({r.error})" for r in replies if r.error is not None), "")
            return f"too few revealed their shares{why}"
        total = sum((_integers(r) for r in here), np.zeros(1, np.uint32))
        for u, was_here in enumerate(present):
            secret = combine({place: row[u].tobytes() for place, row in shares.items()})
            if was_here:
                total = total - prg(secret, len(total))
                continue
            others: dict[bool, list[bytes]] = {True: [], False: []}
            for v, other_here in enumerate(present):
                if other_here:
                    others[v > u].append(keys.publics[v, number, 0].numpy().tobytes())
            total = total + mask_of(len(total), secret, others)
        return total


@dataclass(frozen=True, eq=False)
class _Mean:
    """The N_m-weighted mean of the replies."""

    arrays: dict[str, Payload]
    scalars: dict[str, Scalar]

    @classmethod
    def of(
        cls,
        total: np.ndarray[Any, np.dtype[np.uint32]],
        here: Sequence[Reply],
        bounds: Tensor,
        members: Sequence[ClientId],
        sizes: Mapping[ClientId, int],
    ) -> _Mean:
        weight = sum(sizes[r.client] for r in here) / sum(sizes[m] for m in members)
        arrays: dict[str, Payload] = {}
        scalars: dict[str, Scalar] = {}
        rows, start = json.loads(str(here[0].scalars["layout"])), 0
        for row, bound in zip(rows, bounds.tolist(), strict=True):
            name, *form = row
            length = int(np.prod(form[1])) if form else 1
            part = total[start : start + length]
            numbers = FixedPoint(bound, len(members)).decode(part) / weight
            start += length
            if not form:
                scalars[name] = float(numbers[0])
                continue
            dtype = {"float32": torch.float32, "float64": torch.float64}[form[0]]
            dense = torch.from_numpy(numbers).to(dtype).reshape(form[1])
            arrays[name] = Sketch(dense, *form[2:]) if form[2:] else dense
        return cls(arrays, scalars)


def _alike(replies: list[Reply]) -> list[Reply]:
    """Return the replies that are made of the same parts as most."""
    usual = Counter(map(_parts, replies)).most_common(1)
    return [r for r in replies if _parts(r) == usual[0][0] and usual[0][0][1] >= 0]


def _parts(reply: Reply) -> tuple[Scalar, int]:
    masked = reply.arrays["masked"]
    if not isinstance(masked, Tensor) or masked.dtype != torch.uint8 or masked.numel() % 4:
        return None, -1
    return reply.scalars.get("layout"), masked.numel()


def _failed(replies: Sequence[Reply], why: str) -> list[Reply]:
    return [
        r if r.error is not None else Reply(r.client, r.num_samples, error=why) for r in replies
    ]


def _having(replies: Sequence[Reply], name: str, shape: tuple[int, ...]) -> list[Reply]:
    """Return the replies; one without bytes of this shape has an error in place of them."""
    wrong = [
        r
        for r in replies
        if r.error is None
        and not (
            isinstance(found := r.arrays.get(name), Tensor)
            and found.shape == shape
            and found.dtype == torch.uint8
        )
    ]
    failed = _failed(wrong, f"it sent no '{name}' of the shape {shape}")
    return [next((f for f in failed if f.client == r.client), r) for r in replies]


def _array(reply: Reply, name: str) -> Tensor:
    found = reply.arrays[name]
    assert isinstance(found, Tensor)
    return found


def _integers(reply: Reply) -> np.ndarray[Any, np.dtype[np.uint32]]:
    masked = reply.arrays["masked"]
    assert isinstance(masked, Tensor)
    return np.frombuffer(masked.numpy().tobytes(), "<u4")
