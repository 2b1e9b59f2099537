"""Arrays that clients keep, so that only what they lack of them travels.

| a client has        | gets                                                        | label |
|---------------------|-------------------------------------------------------------|-------|
| this version        | nothing                                                     |       |
| the version before  | the ``difference``                                          | `y+`  |
| the version before  | what a ``step`` to this one needs, where that is shorter    |       |
| an older one        | the numbers that changed since, where that is shorter       | `y=`  |
| none                | the whole                                                   | `y`   |

A step is line 8 of Algorithm 2, with the damping δ of ``hypergradient/solver_step.py``:

    v' = v − (Δ − α (b − δ v)),    b = ∇_y F

b stays the same during a round and few numbers of Δ change from one iteration to the next. Both are
arrays that clients keep, so that a client which has v computes v' from what has changed of them.
Where v is zero, Δ is too. Server and client take the step in the same operations: the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from fedsift.compress import Payload, Sparse, wire

Scalar = wire.Scalar
DELTA, RIGHT = "delta", "outer_gradient"  # what a step needs, by the names that clients keep them
DIFFERENCE, SINCE = "+", "="
WORTH = 0.9  # of an array: numbers that changed are not worth an attempt beyond


@dataclass(frozen=True)
class ByDifference:
    """An array that changes little between requests: clients keep it, and get Top-k of the change.

    ``rate`` is what it is sent with where the run does not compress more. A federation that keeps
    nothing sends it whole.
    """

    value: Tensor
    rate: float


@dataclass(frozen=True, eq=False)
class Step:
    """A step of v that a client can take by itself."""

    delta: Tensor
    right: Tensor
    lr: float
    damping: float

    def taken(self, v: Tensor) -> Tensor:
        """Return v'."""
        return v - (self.delta - self.lr * (self.right - self.damping * v))


@dataclass(frozen=True)
class ByStep:
    """A v, and the step that leads to it from the v before, or from zero.

    A federation that keeps nothing sends it whole.
    """

    value: Tensor
    step: Step


@dataclass(frozen=True)
class Delivery:
    """What travels to one client: payloads by label, what the envelope says, its versions then."""

    parts: Mapping[str, Payload] = field(default_factory=dict)
    envelope: Mapping[str, Scalar] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Delivery) -> Delivery:
        return Delivery(
            {**self.parts, **other.parts},
            {**self.envelope, **other.envelope},
            {**self.versions, **other.versions},
        )

    @property
    def num_bytes(self) -> int:
        """The size of its payloads and of its envelope, encoded."""
        return sum(map(wire.size, self.parts.values())) + wire.size(self.envelope)


@dataclass(frozen=True)
class Versioned:
    """A version of an array that clients keep, and the ways in which it may travel.

    ``value`` is what every client ends up with, bit for bit. ``changed`` has for every number the
    version in which it last changed. ``whole`` is a shorter way of saying ``value``, if there is.
    """

    value: Tensor
    version: int
    difference: Sparse | None = None
    changed: Tensor | None = None
    whole: Sparse | None = None
    step: SentStep | None = None

    def delivery(self, name: str, known: Mapping[str, int]) -> Delivery:
        """Return what travels to a client that has these versions."""
        told: dict[str, Scalar] = {f"{name}_version": self.version}
        here, last = {name: self.version}, known.get(name)
        if last == self.version:
            return Delivery({}, told, here)
        if self.difference is not None and last == self.version - 1:
            return Delivery({name + DIFFERENCE: self.difference}, told, here)
        whole = self.value if self.whole is None else self.whole
        shortest, size = Delivery({name: whole}, told, here), wire.size(whole)
        step = self.step
        reachable = step is not None and (step.from_zero or last == self.version - 1)
        if step is not None and reachable and step.worth(known, size):
            return Delivery({}, told, here) + step.delivery(name, known)
        if (since := self._since(last)) is not None and wire.size(since) < size:
            shortest = Delivery({name + SINCE: since}, told, here)
        elif self.whole is not None and self.value.ndim != 1:
            shape = ",".join(map(str, self.value.shape))
            shortest += Delivery(envelope={f"{name}_shape": shape})
        return shortest

    def _since(self, last: int | None) -> Sparse | None:
        """Return the numbers that changed since a version; None where there is no point in it."""
        if self.changed is None or last is None or last > self.version:
            return None
        at = (self.changed > last).nonzero().squeeze(1)
        if len(at) > WORTH * self.value.numel():
            return None
        return Sparse(at, self.value.flatten()[at], self.value.numel())


@dataclass(frozen=True)
class SentStep:
    """A step as it travels: Δ and b are versions of arrays that clients keep."""

    delta: Versioned
    right: Versioned
    lr: float
    damping: float
    from_zero: bool

    def delivery(self, name: str, known: Mapping[str, int]) -> Delivery:
        """Return what a client needs for the step, apart from v."""
        told = {f"{name}_lr": self.lr, f"{name}_damping": self.damping}
        told[f"{name}_from_zero"] = self.from_zero
        needed = Delivery(envelope=told) + self.right.delivery(RIGHT, known)
        return needed if self.from_zero else needed + self.delta.delivery(DELTA, known)

    def worth(self, known: Mapping[str, int], whole: int) -> bool:
        """Tell if Δ is shorter than v; b serves more than one step, so it does not count."""
        return self.from_zero or self.delta.delivery(DELTA, known).num_bytes < whole
