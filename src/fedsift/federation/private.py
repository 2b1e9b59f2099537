"""A federation whose clients add noise to what they send: site-level differential privacy.

    1  account   one release of each client that is asked, counted before it is asked
    2  ask       every request says to what length a reply is clipped, and how much noise it gets
    3  range     numbers that noise has put outside what they can be are put back

No method knows of it. Noise is added by the client (``client/private.py``); nothing here can take
it out. Without secure sums every reply has the whole noise; with them only the sum has it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from fedsift.client.private import PRIVATE, Noise, Part
from fedsift.errors import ConfigError
from fedsift.federation.layer import Layer
from fedsift.keys import Keys, key
from fedsift.messages import ClientId, Federation, Reply, Request, scalars_of
from fedsift.privacy import Account, multiplier_for


@dataclass(frozen=True)
class PrivacyKeys(Keys):
    """Differential privacy for whole sites; off unless ``dp_clip`` is set."""

    table: ClassVar[str] = "privacy"
    dp_clip: float = key(
        0.0,
        "longest update of a site, clipped there before noise; 0: no differential privacy",
        low=0,
    )
    dp_noise: float = key(
        0.0, "noise multiplier: standard deviation over dp_clip; 0: what dp_epsilon needs", low=0
    )
    dp_epsilon: float = key(
        0.0, "epsilon that the whole run may cost a site; 0: what dp_noise gives", low=0
    )
    dp_delta: float = key(1e-5, "delta of the guarantee", low=0, high=0.1, open_low=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        noises = (self.dp_noise > 0) + (self.dp_epsilon > 0)
        if noises != (self.dp_clip > 0):
            raise ConfigError(
                "differential privacy needs dp_clip and one of dp_noise and dp_epsilon; set "
                "both or neither"
            )


class PrivateFederation(Layer):
    """Another federation, to whose replies its clients add noise."""

    def __init__(self, inner: Federation, clip: float, account: Account) -> None:
        super().__init__(inner)
        self.clip, self.account = clip, account

    def ask(self, request: Request, clients: Sequence[ClientId]) -> list[Reply]:
        """Ask these clients for a reply with noise."""
        self.account.spend(clients)
        asked = scalars_of(Noise(self.clip, self.account.multiplier))
        scalars = {**request.scalars, **asked}
        replies = self.inner.ask(replace(request, scalars=scalars), clients)
        return [_in_range(reply, request.action) for reply in replies]


def account_of(keys: PrivacyKeys, releases: int) -> Account | None:
    """Return the account of a run in which a client is asked this often; None: without noise."""
    if not keys.dp_clip:
        return None
    if keys.dp_noise:
        return Account(keys.dp_noise, keys.dp_delta)
    multiplier = multiplier_for(keys.dp_epsilon, keys.dp_delta, releases)
    return Account(multiplier, keys.dp_delta, most=releases)


def _in_range(reply: Reply, action: str) -> Reply:
    parts = {n: p for n, p in PRIVATE.get(action, {}).items() if math.isfinite(p.high)}
    scalars = {
        n: _within(float(reply.scalars[n] or 0), parts[n]) for n in parts if n in reply.scalars
    }
    arrays = {
        n: a.clamp(parts[n].low, parts[n].high)
        for n, a in reply.arrays.items()
        if n in parts and isinstance(a, Tensor)
    }
    return replace(reply, arrays={**reply.arrays, **arrays}, scalars={**reply.scalars, **scalars})


def _within(value: float, part: Part) -> float:
    return min(max(value, part.low), part.high)
