"""A federation whose replies are judged before they touch the server's state; no method knows.

    1  form      names, kinds, types, shapes as in ``client/replies.py``; finite; else dropped
    2  weight    N_m within bounds, whatever a client claims
    3  length    vectors are clipped to ``clip`` times the median of the round, and dropped beyond
                 ``ABSURD`` times that; sizes that scalars state are clipped too
    4  rule      where it is not the mean, every reply gets the aggregate: the mean of equal replies
                 is that reply, so a method's own mean is the rule's

A client whose replies were dropped three times is not asked any more until a person says otherwise
(``left_out.json`` of the run folder). Where most replies of a request are not finite the run itself
diverges: they are passed on, and the method says so. Honest replies pass untouched, bit for bit.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from fedsift.client.replies import REPLIES, Shaped, fault
from fedsift.compress import Payload, Sparse
from fedsift.federation.layer import Layer
from fedsift.federation.robust import (
    FEWEST,
    RULES,
    WHOLE,
    RobustKeys,
    aggregated,
    clipped,
    median_of_means,
    numbers_of,
)
from fedsift.federation.suspicion import Directions
from fedsift.messages import ClientId, Federation, Reply, Request

STRIKES = 3
ABSURD = 2.5  # times the length to which vectors are clipped: dropped, as no mistake of degree
CLAIM = 20.0  # medians of N_m: more is not believed
UPDATES = ("update", "base_update", "v_update", "y_momentum", "v_momentum")
PRODUCTS = ("product", "residual", "sketch", "cross", "outer_y", "outer_x")
SIZES = {"outer_square": 2, "curvature": 1, "error": 1}  # scalars that are a length to this power
JUMP = 3.0  # as ``algorithms/found_steps.py``: far above what noise does in one round


@dataclass
class Judge:
    """What the server knows of its clients' replies, over the rounds of a run."""

    keys: RobustKeys = field(default_factory=RobustKeys)
    strikes: dict[ClientId, list[str]] = field(default_factory=dict)
    directions: Directions = field(default_factory=Directions)
    norms: dict[ClientId, float] = field(default_factory=dict)
    dropped: dict[ClientId, str] = field(default_factory=dict)
    suspects: dict[ClientId, str] = field(default_factory=dict)
    claims: dict[ClientId, str] = field(default_factory=dict)
    loss: float = 0.0

    def begin(self) -> None:
        """Begin a round."""
        self.norms, self.dropped, self.suspects = {}, {}, dict(self.claims)

    def left_out(self, client: ClientId) -> bool:
        """Tell whether a client is not asked any more."""
        return len(self.strikes.get(client, ())) >= STRIKES

    def drop(self, client: ClientId, why: str) -> None:
        """Count a reply that was dropped."""
        self.dropped[client] = why
        self.strikes.setdefault(client, []).append(why)

    def exploded(self, before: float, after: float) -> bool:
        """Tell whether the loss on the clean set is far above all that it was before."""
        self.loss = max(self.loss, before)
        return not after <= JUMP * self.loss

    def record(self) -> dict[str, Any]:
        """Return what ``rounds.jsonl`` says of the round."""
        found: dict[str, Any] = {
            "norms": {str(m): float(f"{n:.4g}") for m, n in self.norms.items()}
        }
        for name, said in (("dropped", self.dropped), ("suspects", self.suspects)):
            if said:
                found[name] = {str(m): why for m, why in sorted(said.items())}
        return found

    def weights(self, sizes: Mapping[ClientId, int]) -> dict[ClientId, int]:
        """Return N_m of every client, as far as it is believed."""
        if len(sizes) < FEWEST:
            return dict(sizes)
        found, middle = dict(sizes), statistics.median_low(sizes.values())
        for client, size in sizes.items():
            if not self.keys.max_share and size > CLAIM * middle:
                found[client] = middle
                self.claims[client] = (
                    f"it claims {size:,} samples, {size / middle:.3g} times the median, and weighs "
                    "as the median; raise max_share if that is right"
                )
        limit = _limit(sorted(sizes.values()), self.keys.max_share)
        return {client: min(size, limit) for client, size in found.items()}


def _limit(sizes: Sequence[int], share: float) -> int:
    """Return the largest N_m that is at most ``share`` of Σ min(N_m, limit); 0: no limit."""
    limit = sizes[-1]
    for cut in range(1, len(sizes)):
        if not 0 < share * cut < 1 or limit <= share * sum(min(n, limit) for n in sizes):
            break
        limit = int(share * sum(sizes[:-cut]) / (1 - share * cut))
    return max(1, limit)


class JudgedFederation(Layer):
    """One round with another federation."""

    def __init__(self, inner: Federation, judge: Judge) -> None:
        super().__init__(inner)
        self.judge, self._sizes = judge, judge.weights(inner.sizes)

    @property
    def sizes(self) -> Mapping[ClientId, int]:
        """N_m of every client, as far as it may weigh."""
        return self._sizes

    def ask(self, request: Request, clients: Sequence[ClientId]) -> list[Reply]:
        """Ask these clients; what is wrong with a reply becomes its error."""
        out = [m for m in clients if self.judge.left_out(m)]
        asked = [m for m in clients if m not in out]
        heard = self.inner.ask(request, asked) if asked else []
        replies = [replace(r, num_samples=self.sizes[r.client]) for r in heard]
        replies = self._well_formed(replies, request.plain())
        sizes = Lengths()
        replies = self._finite(replies, sizes)
        replies = self._short(replies, sizes)
        self._look(replies, request.round)
        replies = self._aggregated(replies)
        silent = f"it is left out after {STRIKES} bad replies"
        replies += [Reply(m, self.sizes[m], error=silent) for m in out]
        return sorted(replies, key=lambda r: r.client)

    def _well_formed(self, replies: list[Reply], request: Request) -> list[Reply]:
        faults = {r.client: fault(r, request) for r in replies if r.error is None}
        row = REPLIES.get(request.action)
        forms = {} if row is None else row.arrays
        for name in (n.rstrip("?") for n, f in forms.items() if isinstance(f, Shaped)):
            shapes = {
                r.client: tuple(numbers_of(r.arrays[name]).shape)
                for r in replies
                if r.error is None and name in r.arrays and not faults[r.client]
            }
            usual = Counter(shapes.values()).most_common(1)
            for client, shape in shapes.items():
                if shape != usual[0][0]:
                    faults[client] = f"its '{name}' has the shape {shape}"
        return [self._dropped(r, faults.get(r.client)) for r in replies]

    def _finite(self, replies: list[Reply], sizes: Lengths) -> list[Reply]:
        """Drop replies with numbers that are not finite, unless most have some."""
        good = [r for r in replies if r.error is None]
        bad = {r.client for r in good if not sizes.finite(r)}
        if 2 * len(bad) > len(good):
            return replies
        why = "it has a number that is not finite"
        return [self._dropped(r, why if r.client in bad else None) for r in replies]

    def _dropped(self, reply: Reply, why: str | None) -> Reply:
        if not why:
            return reply
        self.judge.drop(reply.client, why)
        return Reply(reply.client, reply.num_samples, error=f"its reply was dropped: {why}")

    def _short(self, replies: list[Reply], sizes: Lengths) -> list[Reply]:
        """Clip vectors, and sizes in scalars, to a multiple of the median."""
        good, most = [r for r in replies if r.error is None], self.judge.keys.clip
        if not most or len(good) < FEWEST:
            return replies
        for name in {n for r in good for n in r.arrays if n in UPDATES + PRODUCTS}:
            lengths = {r.client: sizes.of(r.arrays[name]) for r in good if name in r.arrays}
            middle = statistics.median(lengths.values())
            mixed = len({type(r.arrays[name]) for r in good if name in r.arrays}) > 1
            for n, reply in enumerate(replies):
                if name not in reply.arrays or lengths[reply.client] <= most * middle:
                    continue
                payload, length = reply.arrays[name], lengths[reply.client]
                allowed = most * middle * (WHOLE if mixed and isinstance(payload, Tensor) else 1)
                if length > ABSURD * allowed and middle:
                    why = f"its '{name}' is {length / middle:.3g} times as long as the median's"
                    replies[n] = self._dropped(reply, why)
                elif length > allowed:
                    arrays = {**reply.arrays, name: clipped(payload, allowed / length)}
                    replies[n] = replace(reply, arrays=arrays)
                    self._long(reply.client, name, length / middle if middle else math.inf)
        return _with_short_scalars(replies, most)

    def _long(self, client: ClientId, name: str, ratio: float) -> None:
        sentence = f"its '{name}' was {ratio:.3g} times the median's length, and was clipped"
        self.judge.suspects.setdefault(client, sentence)

    def _look(self, replies: Sequence[Reply], k: int) -> None:
        """Note lengths and directions of updates."""
        found = {r.client: r.arrays["update"] for r in replies if "update" in r.arrays}
        updates = {m: u for m, u in found.items() if isinstance(u, (Tensor, Sparse))}
        if not updates:
            return
        for client, why in self.judge.directions.see(updates, k).items():
            self.judge.suspects.setdefault(client, why)
        self.judge.norms |= self.judge.directions.last(updates)

    def _aggregated(self, replies: list[Reply]) -> list[Reply]:
        """Give every reply the rule's aggregate."""
        rule, good = RULES[self.judge.keys.aggregation], [r for r in replies if r.error is None]
        if rule is None or len(good) < FEWEST:
            return replies
        total = sum(r.num_samples for r in good)
        for name in {n for r in good for n in r.arrays if n in UPDATES + PRODUCTS}:
            having = [r for r in good if name in r.arrays]
            payloads = [r.arrays[name] for r in having]
            if name in PRODUCTS and any(isinstance(p, Sparse) for p in payloads):
                continue
            shares = [r.num_samples / total for r in having]
            one = aggregated(payloads, shares, rule if name in UPDATES else median_of_means)
            if one is not None:
                replies = [_with(r, name, one) if name in r.arrays else r for r in replies]
        return replies


class Lengths:
    """Norms of payloads, each taken once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Payload, float]] = {}

    def of(self, payload: Payload) -> float:
        """Return the norm of what a payload consists of."""
        if id(payload) not in self._known:
            numbers = numbers_of(payload)
            real = numbers if numbers.is_floating_point() else numbers.double()
            self._known[id(payload)] = payload, float(torch.linalg.vector_norm(real))
        return self._known[id(payload)][1]

    def finite(self, reply: Reply) -> bool:
        """Tell whether all numbers of a reply are finite, and not too large to have a norm."""
        scalars = (v for v in reply.scalars.values() if isinstance(v, float))
        return all(map(math.isfinite, scalars)) and all(
            math.isfinite(self.of(payload)) for payload in reply.arrays.values()
        )


def _with_short_scalars(replies: list[Reply], most: float) -> list[Reply]:
    for name, power in SIZES.items():
        values = {
            r.client: float(r.scalars[name] or 0.0)
            for r in replies
            if r.error is None and name in r.scalars
        }
        if not values:
            continue
        limit = most**power * statistics.median(map(abs, values.values()))
        for n, reply in enumerate(replies):
            value = values.get(reply.client, 0.0)
            if abs(value) > limit:
                scalars = {**reply.scalars, name: math.copysign(limit, value)}
                replies[n] = replace(reply, scalars=scalars)
    return replies


def _with(reply: Reply, name: str, payload: Payload) -> Reply:
    return replace(reply, arrays={**reply.arrays, name: payload})
