"""The outer step of Algorithm 1, line 13: x_k+1 = P(x_k − η d(∇h)).

| rule         | d(∇h)          |                                                               |
|--------------|----------------|---------------------------------------------------------------|
| `gradient`   | ∇h             | as the paper writes it                                        |
| `scale-free` | ∇h / rms(∇h)   | η is then the typical change of a weight in one round         |

For sample weights ∇h has a factor 1/N, so that the paper's η = 0.1 would need thousands of rounds;
dividing by the root mean square makes η mean the same whatever N, v and the loss are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from fedsift.algorithms.state import Server
from fedsift.errors import ConfigError
from fedsift.keys import Keys, key
from fedsift.messages import scalar


def _scale_free(lr: float, hypergradient: Tensor) -> Tensor:
    rms = hypergradient.square().mean().sqrt()
    return torch.where(rms > 0, lr * hypergradient / rms, torch.zeros_like(hypergradient))


OUTER_RULES: dict[str, Callable[[float, Tensor], Tensor]] = {
    "scale-free": _scale_free,
    "gradient": lambda lr, hypergradient: lr * hypergradient,
}


def check_rule(rule: str) -> None:
    """Refuse a rule that is not in the table."""
    if rule not in OUTER_RULES:
        raise ConfigError(f"outer rule '{rule}' is unknown; use one of {', '.join(OUTER_RULES)}")


@dataclass(frozen=True)
class Move:
    """The outer step of one round; ``pace`` is how strongly weights are also pulled (ours)."""

    lr: float = scalar("outer_lr")
    rule: str = scalar("outer_rule")
    pace: float = 0.0

    def change(self, hypergradient: Tensor) -> Tensor:
        """Return what to subtract from x."""
        check_rule(self.rule)
        return OUTER_RULES[self.rule](self.lr, hypergradient)


@dataclass(frozen=True)
class TotalSamples:
    """N, the number of samples of all clients together."""

    total_samples: int


class OuterSchedule(Protocol):
    """How x moves over the rounds."""

    def at_round(self, server: Server, y: Tensor, k: int) -> Move:
        """Return the step of round k at the model y."""
        ...


@dataclass(frozen=True)
class OuterStep:
    """The same step in every round, as in the paper."""

    lr: float = 0.1
    rule: str = "scale-free"

    def __post_init__(self) -> None:
        check_rule(self.rule)

    def at_round(self, server: Server, y: Tensor, k: int) -> Move:  # noqa: ARG002
        """Return the step of round k."""
        return Move(self.lr, self.rule)


@dataclass(frozen=True)
class OuterKeys(Keys):
    """The outer step."""

    table: ClassVar[str] = "outer"
    outer_lr: float = key(0.1, "outer step size η", low=0, open_low=True)
    outer_rule: str = key(
        "scale-free",
        "scale-free divides the hypergradient by its root mean square; gradient does not",
        choices=lambda: tuple(OUTER_RULES),
    )
