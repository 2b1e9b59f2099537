"""What a site sends, clipped and noised: differential privacy for the whole site.

    c_i = o_i + (r_i − o_i) min(1, b_i / ‖r_i − o_i‖)
    r̃_i = c_i + z b_i / √(s_i t) n_i,         n_i ~ N(0, I),  Σ_i s_i = 1

A site that replies with all o_i, as if it had no samples, replies with b_i less in part i at most;
in units of the noise these are √(s_i t) / z, together √t / z. A reply by itself (t = 1) is so a
Gaussian mechanism with multiplier z, however many parts it has. Under a secure sum at least t
members stand behind what is revealed (``secure_sum.py`` reveals nothing else), so that the sum has
t times the noise of one, and multiplier z as well; t is found here and not told by the server.

| symbol | meaning                                                                     |
|--------|-----------------------------------------------------------------------------|
| r_i    | part i of the reply: an array or a number                                   |
| b_i    | its bound: ``dp_clip`` for an update, known for what lies between two bounds |
| o_i    | where it is clipped to: 0 for an update, the middle of the bounds           |
| s_i    | its share of the budget; what has none, such as the loss, is withheld       |

Clipping and noise are in float64; what follows changes nothing of the guarantee.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fedsift.client.state import Client, ClientState, Outcome
from fedsift.compress import Payload
from fedsift.errors import InputError
from fedsift.messages import Request, Scalar, scalar
from fedsift.privacy import normal
from fedsift.secure.shamir import needed

FAR = 12.0  # standard deviations that no number of any vector reaches: 4e-33 each


@dataclass(frozen=True)
class Noise:
    """What a request asks: the bound of an update C, and the multiplier z."""

    clip: float = scalar("dp_clip")
    multiplier: float = scalar("dp_noise")


@dataclass(frozen=True)
class Part:
    """A part of a reply: its share of the budget, and the bounds of its numbers, if it has any."""

    share: float
    low: float = -math.inf
    high: float = math.inf

    @property
    def middle(self) -> float:
        """Return o."""
        return (self.low + self.high) / 2 if math.isfinite(self.high) else 0.0

    def bound(self, clip: float, count: int) -> float:
        """Return b: the largest length of this many numbers between the bounds, else C."""
        if not math.isfinite(self.high):
            return clip
        return (self.high - self.low) / 2 * math.sqrt(count)


WHOLE: Mapping[str, Part] = {"update": Part(1.0)}
PRIVATE: dict[str, Mapping[str, Part]] = {  # what of a reply to each action can be sent with noise
    "train": WHOLE,
    "train-robust": WHOLE,
    "train-elr": WHOLE,
    "train-posterior": {
        "update": Part(0.8),
        "curve": Part(0.05, 0.0, 1.0),
        "kept": Part(0.05, 0.0, 1.0),
        "unseen_rate": Part(0.05, 0.0, 1.0),
        "unseen_variance": Part(0.05, 0.0, 0.25),
    },
}
WITHHELD = {"loss": 0.0}


def with_noise(client: Client, outcome: Outcome, request: Request) -> Outcome:
    """Clip the reply and add noise, where the request asks for that."""
    if "dp_noise" not in request.scalars:
        return outcome
    parts, asked = _asked(request), request.read(Noise)
    draws = 0 if outcome.state.draws is None else int(outcome.state.draws)
    arrays: dict[str, Payload] = {}
    scalars: dict[str, Scalar] = {**WITHHELD}
    for name, part in parts.items():
        source = _key(client, request, name, draws)
        if name in outcome.scalars:
            value = np.array([float(outcome.scalars[name] or 0.0)])
            scalars[name] = float(_noised(value, part, asked, request, source)[0])
            continue
        payload = outcome.arrays[name]
        if not isinstance(payload, Tensor):
            raise InputError(f"'{name}' is compressed, and noise is added to whole vectors only")
        flat = payload.detach().cpu().double().numpy().reshape(-1)
        noised = torch.from_numpy(_noised(flat, part, asked, request, source))
        arrays[name] = noised.reshape(payload.shape).to(payload)
    scalars = {name: scalars[name] for name in scalars if name in outcome.scalars}
    state: ClientState = replace(outcome.state, draws=torch.tensor([draws + 1]))
    return Outcome(arrays, scalars, state)


def reach(request: Request, name: str, count: int) -> float:
    """Return what no number of a noised part exceeds; it does not depend on the samples."""
    part = _asked(request).get(name)
    if part is None:
        return 0.0
    asked = request.read(Noise)
    bound = part.bound(asked.clip, count)
    return abs(part.middle) + bound + FAR * _deviation(part, bound, asked, request)


def clipped(numbers: np.ndarray, part: Part, clip: float) -> np.ndarray:
    """Return o + (r − o) min(1, b / ‖r − o‖); o where a number is not finite."""
    from_middle = numbers - part.middle
    length = float(np.linalg.norm(from_middle))
    if not math.isfinite(length):
        return np.full_like(numbers, part.middle)
    bound = part.bound(clip, numbers.size)
    return part.middle + from_middle * min(1.0, bound / max(length, 1e-300))


def _noised(
    numbers: np.ndarray,
    part: Part,
    asked: Noise,
    request: Request,
    source: bytes,
) -> np.ndarray:
    bound = part.bound(asked.clip, numbers.size)
    deviation = _deviation(part, bound, asked, request)
    return clipped(numbers, part, asked.clip) + deviation * normal(source, numbers.size)


def _deviation(part: Part, bound: float, asked: Noise, request: Request) -> float:
    """Return z b / √(s t)."""
    summed = "sum_total" in request.scalars
    fewest = needed(request.array("members").numel()) if summed else 1
    return asked.multiplier * bound / math.sqrt(part.share * fewest)


def _asked(request: Request) -> Mapping[str, Part]:
    if request.action not in PRIVATE:
        raise InputError(
            f"what '{request.action}' replies has no bound for noise; use a method that asks "
            f"nothing but {', '.join(PRIVATE)}"
        )
    asked = request.read(Noise)
    if not (0 < asked.clip < math.inf and 0 < asked.multiplier < math.inf):
        raise InputError("dp_clip and dp_noise must be finite and above 0")
    return PRIVATE[request.action]


def _key(client: Client, request: Request, name: str, draws: int) -> bytes:
    """Return what a part's noise is drawn from: a fresh secret where nobody may know it."""
    if client.secret_noise:
        return os.urandom(32)
    text = f"noise {client.seed} {request.round} {client.id} {request.action} {name} {draws}"
    return hashlib.sha256(text.encode()).digest()
