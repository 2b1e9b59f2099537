"""Which clients send what the others do not: named, not left out.

    cos_m = ⟨u_m, ū_−m⟩ / (‖u_m‖ ‖ū_−m‖),      ū_−m: the mean of the other updates of the round

A client is a suspect where the mean of cos_m over its last rounds is against the median client's,
and where an update has the length of an earlier one to the last bit: it was sent before. A site
whose labels or inputs are unlike all others' may be named too: the sentence says what was seen.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedsift.compress import Payload, Sparse
from fedsift.messages import ClientId

ROUNDS = 10  # over which directions are averaged
FIRST = 4  # rounds before anybody is named
FAR = -0.2  # of the median client's cosine: late updates are mostly noise, and near 0 is usual
AGAINST = 0.05
ALIGNED = 0.1  # the median client's cosine, at least: else directions say nothing
FEWEST = 4  # clients


@dataclass
class Directions:
    """The cosines of the last rounds, and the lengths of updates."""

    cosines: dict[ClientId, deque[float]] = field(default_factory=dict)
    lengths: dict[ClientId, deque[tuple[int, float]]] = field(default_factory=dict)

    def see(self, updates: Mapping[ClientId, Payload], k: int) -> dict[ClientId, str]:
        """Take the updates of round k; return who is suspect, and why."""
        named = self._repeated(updates, k)
        if len(updates) < FEWEST:
            return named
        for client, cosine in cosines(updates).items():
            self.cosines.setdefault(client, deque(maxlen=ROUNDS)).append(cosine)
        means = {m: statistics.fmean(c) for m, c in self.cosines.items() if len(c) >= FIRST}
        if len(means) < FEWEST:
            return named
        middle = statistics.median(means.values())
        for client, mean in means.items():
            against = mean < min(FAR * middle, -AGAINST)
            if middle >= ALIGNED and against and client in updates:
                named.setdefault(
                    client, f"its updates point elsewhere (cosine {mean:.2f}, others {middle:.2f})"
                )
        return named

    def last(self, updates: Mapping[ClientId, Payload]) -> dict[ClientId, float]:
        """Return the lengths of updates that were just seen."""
        return {client: self.lengths[client][-1][1] for client in updates}

    def _repeated(self, updates: Mapping[ClientId, Payload], k: int) -> dict[ClientId, str]:
        named = {}
        for client, payload in updates.items():
            length, past = _norm(payload), self.lengths.setdefault(client, deque(maxlen=ROUNDS))
            before = next((j for j, known in past if known == length and j != k), None)
            if before is not None and length > 0:
                named[client] = f"its update is that of round {before + 1}"
            past.append((k, length))
        return named


def cosines(updates: Mapping[ClientId, Payload]) -> dict[ClientId, float]:
    """Return the cosine of every update, at length 1, with the sum of the others."""
    lengths = {m: max(_norm(p), 1e-30) for m, p in updates.items()}
    total: Tensor | None = None
    for client, payload in updates.items():
        if total is None:
            size = payload.length if isinstance(payload, Sparse) else _dense(payload).numel()
            total = _values(payload).new_zeros(size)
        _add(total, payload, 1.0 / lengths[client])
    assert total is not None
    square = float(total @ total)
    found = {}
    for client, payload in updates.items():
        along = _dot(total, payload) / lengths[client]
        rest = max(square - 2 * along + 1.0, 1e-30) ** 0.5
        found[client] = (along - 1.0) / rest
    return found


def _dense(payload: Payload) -> Tensor:
    assert isinstance(payload, Tensor)
    return payload.flatten()


def _values(payload: Payload) -> Tensor:
    return payload.values if isinstance(payload, Sparse) else _dense(payload)


def _norm(payload: Payload) -> float:
    return float(torch.linalg.vector_norm(_values(payload)))


def _add(total: Tensor, payload: Payload, factor: float) -> None:
    if isinstance(payload, Sparse):
        total.index_add_(0, payload.indices, payload.values, alpha=factor)
    else:
        total.add_(_dense(payload), alpha=factor)


def _dot(total: Tensor, payload: Payload) -> float:
    if isinstance(payload, Sparse):
        return float(total[payload.indices] @ payload.values)
    return float(total @ _dense(payload))
