"""Requests and replies: everything that the server and its clients exchange.

An algorithm is written against one method, ``federation.ask(request, clients) -> replies``. A
request names an action and carries arrays and scalars; a reply carries arrays and scalars, the
client's number of samples N_m, or an error. ``Cohort`` goes on with the clients that replied,
weighs them by N_m, and stops the run if they are too few.

Scalars are written and read by dataclasses, each field one scalar: ``scalars_of(LocalSteps(...))``
at the server, ``request.read(LocalSteps)`` at the client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from torch import Tensor

from fedsift.compress import Payload, wire
from fedsift.errors import InputError, TooFewClients
from fedsift.randomness import generator
from fedsift.versioned import ByDifference, ByStep, Delivery, Versioned

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ClientId = int
Scalar = wire.Scalar
Sendable = Payload | Versioned | ByDifference | ByStep
Parts = TypeVar("Parts", bound="DataclassInstance")

_KINDS: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
}


def scalar(name: str, default: Any = MISSING) -> Any:
    """Return a dataclass field that travels under another name than its own."""
    return field(default=default, metadata={"scalar": name})


def scalars_of(*parts: DataclassInstance) -> dict[str, Scalar]:
    """Return the fields of dataclasses as the scalars of one request."""
    return {_name(spec): getattr(part, spec.name) for part in parts for spec in fields(part)}


def _name(spec: Field[Any]) -> str:
    return str(spec.metadata.get("scalar", spec.name))


@cache
def _wanted(kind: type[DataclassInstance]) -> tuple[tuple[str, str, str], ...]:
    """Return the name of every field, that of its scalar, and its type."""
    return tuple((spec.name, _name(spec), str(spec.type)) for spec in fields(kind))


@dataclass(frozen=True)
class Request:
    """An action (a row of ``client.ACTIONS``), its round, its arrays and scalars."""

    action: str
    round: int
    arrays: Mapping[str, Sendable] = field(default_factory=dict)
    scalars: Mapping[str, Scalar] = field(default_factory=dict)
    _read: dict[type, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def plain(self) -> Request:
        """Return the request as a client reads it, arrays that it keeps as their values."""
        kept = (Versioned, ByDifference, ByStep)
        arrays = {n: a.value if isinstance(a, kept) else a for n, a in self.arrays.items()}
        return replace(self, arrays=arrays)

    def array(self, name: str) -> Tensor:
        """Return a dense array."""
        value = self.arrays.get(name)
        if not isinstance(value, Tensor):
            raise InputError(f"the request '{self.action}' has no dense array '{name}'")
        return value

    def read(self, kind: type[Parts]) -> Parts:
        """Return the scalars that make up a dataclass, or refuse what is missing or mistyped.

        They are looked at once: every client of a cohort in one process reads the same request.
        """
        if kind not in self._read:
            self._read[kind] = self._checked(kind)
        found: Parts = self._read[kind]
        return found

    def _checked(self, kind: type[Parts]) -> Parts:
        values = {}
        for own, name, wanted in _wanted(kind):
            value = self.scalars.get(name)
            fits = isinstance(value, _KINDS[wanted]) and isinstance(value, bool) == (
                wanted == "bool"
            )
            if not fits:
                raise InputError(
                    f"the request '{self.action}' needs the scalar '{name}' of type {wanted}, not "
                    f"{value!r}"
                )
            values[own] = float(value) if wanted == "float" else value  # type: ignore[arg-type]
        return kind(**values)

    def delivery(self, known: Mapping[str, int] | None = None) -> Delivery:
        """Return what travels to a client that has these versions."""
        found = Delivery(envelope={"action": self.action, "round": self.round})
        for name, array in self.arrays.items():
            if isinstance(array, Versioned):
                found += array.delivery(name, known or {})
            else:
                whole = array.value if isinstance(array, ByDifference | ByStep) else array
                found += Delivery({name: whole})
        return found + Delivery(envelope=self.scalars)

    def num_bytes(self, known: Mapping[str, int] | None = None) -> int:
        """Return the encoded size for a client that has these versions."""
        return self.delivery(known).num_bytes


@dataclass(frozen=True)
class Reply:
    """A client's reply; ``error`` is a sentence where it could not carry out the request."""

    client: ClientId
    num_samples: int
    arrays: Mapping[str, Payload] = field(default_factory=dict)
    scalars: Mapping[str, Scalar] = field(default_factory=dict)
    error: str | None = None

    def num_bytes(self) -> int:
        """Return the size of the encoded reply."""
        envelope = {"client": self.client, "num_samples": self.num_samples, **self.scalars}
        return wire.size(envelope) + sum(wire.size(a) for a in self.arrays.values())


@dataclass(frozen=True)
class Traffic:
    """Bytes up to and down from the server, and round trips with the cohort."""

    bytes_up: int = 0
    bytes_down: int = 0
    exchanges: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.bytes_up + other.bytes_up,
            self.bytes_down + other.bytes_down,
            self.exchanges + other.exchanges,
        )

    def __sub__(self, other: Traffic) -> Traffic:
        return self + Traffic(-other.bytes_up, -other.bytes_down, -other.exchanges)


@dataclass(frozen=True)
class Snapshot:
    """What a checkpoint holds of the clients: their arrays where they are in this process.

    ``versions`` are those of the versioned arrays that each client has; ``bounds`` are the sizes of
    numbers that a secure sum goes on with, by action.
    """

    clients: Mapping[ClientId, Mapping[str, Tensor]] = field(default_factory=dict)
    versions: Mapping[ClientId, Mapping[str, int]] = field(default_factory=dict)
    traffic: Traffic = Traffic()
    bounds: Mapping[str, Tensor] = field(default_factory=dict)


class Federation(Protocol):
    """The clients, wherever they are."""

    @property
    def sizes(self) -> Mapping[ClientId, int]:
        """N_m of every client, in order of client id."""
        ...

    @property
    def names(self) -> Mapping[ClientId, str]:
        """The names of the clients' sites, where they have any."""
        ...

    @property
    def traffic(self) -> Traffic:
        """All bytes and exchanges so far."""
        ...

    def ask(self, request: Request, clients: Sequence[ClientId]) -> list[Reply]:
        """Ask these clients; return one reply each, in order of client id."""
        ...

    def snapshot(self) -> Snapshot:
        """Return what a checkpoint must hold to go on from here."""
        ...

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a checkpoint."""
        ...

    def inspect(self, client: ClientId) -> Mapping[str, Tensor] | None:
        """Return a client's own arrays; None where the client is in another process."""
        ...


@dataclass(frozen=True)
class Answers:
    """The replies without an error, and their shares N_m / Σ N_m; ``weights`` replace N_m."""

    replies: tuple[Reply, ...]
    events: tuple[str, ...] = ()
    weights: tuple[float, ...] | None = None

    @property
    def shares(self) -> list[float]:
        """Return the weight of each reply in a mean over samples."""
        weights = self.weights or [r.num_samples for r in self.replies]
        total = sum(weights)
        return [weight / total for weight in weights]

    def payloads(self, name: str) -> list[Payload]:
        """Return one array of every reply."""
        return [r.arrays[name] for r in self.replies]

    def mean(self, name: str) -> Tensor:
        """Return the N_m-weighted mean of a dense array."""
        total: Tensor | None = None
        for share, payload in zip(self.shares, self.payloads(name), strict=True):
            if not isinstance(payload, Tensor):
                raise InputError(f"'{name}' is compressed; decompress it before averaging")
            part = payload * share
            total = part if total is None else total.add_(part)
        assert total is not None
        return total

    def numbers(self, name: str) -> list[float]:
        """Return one scalar of every reply."""
        return [float(r.scalars[name] or 0.0) for r in self.replies]

    def mean_scalar(self, name: str) -> float:
        """Return the N_m-weighted mean of a scalar."""
        return sum(s * v for s, v in zip(self.shares, self.numbers(name), strict=True))


@dataclass(frozen=True)
class Cohort:
    """The clients of one round."""

    federation: Federation
    clients: tuple[ClientId, ...]
    min_clients: int = 1

    def called(self, client: ClientId) -> str:
        """Return what messages call a client: its site where that has a name."""
        name = self.federation.names.get(client, str(client))
        return f"client {client}" if name == str(client) else f"site {name}"

    def ask(self, request: Request) -> Answers:
        """Ask the cohort and keep the replies; raise if fewer than ``min_clients`` came."""
        return self.kept(self.federation.ask(request, self.clients), request)

    def kept(self, replies: Sequence[Reply], request: Request) -> Answers:
        """Keep the replies without an error; raise if fewer than ``min_clients`` came."""
        good = tuple(r for r in replies if r.error is None)
        events = tuple(
            f"{self.called(r.client)} did not reply to '{request.action}': {r.error}"
            for r in replies
            if r.error is not None
        )
        if len(good) < max(1, self.min_clients):
            raise TooFewClients(
                f"{len(good)} of {len(self.clients)} clients replied to '{request.action}' in "
                f"round {request.round + 1}, fewer than min_clients = {max(1, self.min_clients)}"
                + (f" ({events[0]})" if events else "")
                + "; resume when more clients are connected"
            )
        return Answers(good, events)


def sample_cohort(federation: Federation, size: int, min_clients: int, *key: int | str) -> Cohort:
    """Draw ``size`` clients uniformly without replacement (0: all), by the generator of ``key``."""
    clients = sorted(federation.sizes)
    if 0 < size < len(clients):
        drawn = torch.randperm(len(clients), generator=generator(*key))[:size]
        clients = sorted(clients[i] for i in drawn.tolist())
    return Cohort(federation, tuple(clients), min_clients)
