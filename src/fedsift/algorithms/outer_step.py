"""The outer step of Algorithm 1, line 13: x_k+1 = P(x_k − η d(∇h)).

| rule         | d(∇h)          |                                                               |
|--------------|----------------|---------------------------------------------------------------|
| `gradient`   | ∇h             | as the paper writes it                                        |
| `scale-free` | ∇h / rms(∇h)   | η is then the typical change of a weight in one round         |

For sample weights ∇h has a factor 1/N, so that the paper's η = 0.1 would need thousands of rounds;
dividing by the root mean square makes η mean the same whatever N, v and the loss are.

The root mean square is over the weights of all clients: one that divided by its own would move
weights as far for a site whose labels are all right as for one whose are all wrong. It is known
after the exchange only, so that of the round before is used. ∇h is linear in v, so

    rms(∇h_k) ≈ ρ ‖v_k‖,    ρ = rms(∇h_j) / ‖v_j‖,    j < k the last round with a v

and each client sends one number, the mean square of its part of ∇h, and gets one. Until there is a
ρ, which is in the first round with a v, every client divides by its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from fedsift.algorithms.additions.constants import AVERAGING
from fedsift.algorithms.state import Server, ServerState
from fedsift.errors import ConfigError
from fedsift.keys import Keys, key
from fedsift.messages import Answers, scalar


def _scale_free(lr: float, hypergradient: Tensor, rms: float) -> Tensor:
    if rms > 0.0:
        return lr * hypergradient / rms
    own = hypergradient.square().mean().sqrt()
    return torch.where(own > 0, lr * hypergradient / own, torch.zeros_like(hypergradient))


OUTER_RULES: dict[str, Callable[[float, Tensor, float], Tensor]] = {
    "scale-free": _scale_free,
    "gradient": lambda lr, hypergradient, rms: lr * hypergradient,  # noqa: ARG005
}
RHO = "outer_scale"  # ρ, among what the server keeps


def check_rule(rule: str) -> None:
    """Refuse a rule that is not in the table."""
    if rule not in OUTER_RULES:
        raise ConfigError(f"outer rule '{rule}' is unknown; use one of {', '.join(OUTER_RULES)}")


@dataclass(frozen=True)
class Move:
    """The outer step of one round.

    ``pace`` is how strongly weights are also pulled (ours), ``mean`` the weight of the past in the
    mean of x that is reported (ours), ``rms`` that of ∇h over all clients, 0 while it is not known.
    """

    lr: float = scalar("outer_lr")
    rule: str = scalar("outer_rule")
    pace: float = 0.0
    mean: float = scalar("weight_mean", default=AVERAGING)
    rms: float = scalar("outer_rms", default=0.0)

    def change(self, hypergradient: Tensor) -> Tensor:
        """Return what to subtract from x."""
        check_rule(self.rule)
        return OUTER_RULES[self.rule](self.lr, hypergradient, self.rms)


def scaled(move: Move, state: ServerState, v: Tensor) -> Move:
    """Return the step with the root mean square that is expected of ∇h along v."""
    rho = state.own.get(RHO)
    return move if rho is None else replace(move, rms=float(rho) * float(v.norm()))


def seen_scale(answers: Answers, v: Tensor) -> dict[str, Tensor]:
    """Return ρ, by what the clients said of a step along v, for ``ServerState.own``.

    Empty where x is shared, and where v is 0.
    """
    size = float(v.norm())
    if not size or any("outer_square" not in reply.scalars for reply in answers.replies):
        return {}
    rho = answers.mean_scalar("outer_square") ** 0.5 / size
    return {RHO: torch.tensor(rho, dtype=torch.float64)}


def hypergradient_size(answers: Answers, shared: Tensor | None = None) -> dict[str, float]:
    """Return how large the estimate of ∇h was: its norm, or its root mean square if x is private.

    The server knows no more of the latter than what clients say of their parts.
    """
    if shared is not None:
        return {"hypergradient_norm": float(shared.norm())}
    if any("outer_square" not in reply.scalars for reply in answers.replies):
        return {}
    return {"hypergradient_rms": answers.mean_scalar("outer_square") ** 0.5}


@dataclass(frozen=True)
class TotalSamples:
    """N, the number of samples of all clients together."""

    total_samples: int


@dataclass(frozen=True)
class Scoring:
    """How many of its samples a client scores in a round (0: all), and whether by differences."""

    scored: int = scalar("scored", default=0)
    differences: bool = scalar("differences", default=False)


@dataclass(frozen=True)
class ScoredKeys(Keys):
    """How many samples a round scores."""

    table: ClassVar[str] = "outer"
    scored: int = key(
        128,
        "samples that a site scores per round, in turn; posterior at least twice those of its "
        "local batches, the noise models of out-of-fold 8 times as many; 0: all",
        low=0,
    )


class OuterSchedule(Protocol):
    """How x moves over the rounds."""

    def at_round(self, server: Server, y: Tensor, k: int, outputs: Tensor | None = None) -> Move:
        """Return the step of round k at the model y; ``outputs``: its own, of the clean samples."""
        ...


@dataclass(frozen=True)
class OuterStep:
    """The same outer step in every round, as in the paper.

    Attributes:
        lr: η.
        rule: ``"gradient"`` is the paper's step along ∇h; ``"scale-free"`` divides ∇h by its root
            mean square.
        mean: Weight of the past in the mean of x that is reported.
    """

    lr: float = 0.1
    rule: str = "scale-free"
    mean: float = AVERAGING

    def __post_init__(self) -> None:
        check_rule(self.rule)

    def at_round(
        self,
        server: Server,  # noqa: ARG002
        y: Tensor,  # noqa: ARG002
        k: int,  # noqa: ARG002
        outputs: Tensor | None = None,  # noqa: ARG002
    ) -> Move:
        """Return the step of every round."""
        return Move(self.lr, self.rule, mean=self.mean)


@dataclass(frozen=True)
class OuterKeys(Keys):
    """The outer step."""

    table: ClassVar[str] = "outer"
    outer_lr: float = key(0.1, "outer step size η", low=0, open_low=True)
    outer_rule: str = key(
        "scale-free",
        "scale-free divides the hypergradient by its root mean square over all clients; gradient "
        "does not",
        choices=lambda: tuple(OUTER_RULES),
    )
    weight_mean: float = key(
        AVERAGING,
        "weight of the past in the mean over rounds of a sample's weight, which is what is "
        "reported; 0: that of the last round",
        low=0,
        high=1,
    )
