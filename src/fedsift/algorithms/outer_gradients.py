"""F and its gradients at (x, y), wherever the samples of F are.

| F                       | samples                | exchanges               |
|-------------------------|------------------------|-------------------------|
| F(x, y)                 | at the server          | 0                       |
| Σ_m (N_m / N) f_m(x, y) | at the clients, of f_m | 1, or with another one |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from torch import Tensor

from fedsift.algorithms.state import AtClients, Server
from fedsift.messages import Answers, Cohort, Request
from fedsift.problem.derivatives import outer_pass


@dataclass(frozen=True)
class OuterToo:
    """Whether clients add f_m and its gradients to what else they reply: no exchange more."""

    outer_too: bool


@dataclass(frozen=True, eq=False)
class OuterGradients:
    """∇_x F and ∇_y F; ``metrics`` has F where it is the clients'.

    ``outputs`` are those of the server's clean samples at y, where the pass has them.
    """

    gx: Tensor
    gy: Tensor
    metrics: Mapping[str, float] = field(default_factory=dict)
    events: tuple[str, ...] = ()
    outputs: Tensor | None = None


def outer_gradients_at(
    cohort: Cohort, server: Server, x: Tensor | None, y: Tensor, k: int
) -> OuterGradients:
    """Return them by the server's validation set, or ask the cohort; x is None where private."""
    own = y.new_zeros(0) if x is None else x
    if not isinstance(server.validation, AtClients):
        _, gx, gy, outputs = outer_pass(server.problem, own, y, server.validation)
        return OuterGradients(gx, gy, outputs=outputs)
    arrays = {"y": y} if x is None else {"y": y, "x": x}
    answers = cohort.ask(Request("outer-gradient", k, arrays))
    return replace(replied(answers, x), events=answers.events)


def replied(answers: Answers, x: Tensor | None) -> OuterGradients:
    """Return what the clients said of F; x is None where nothing was asked about ∇_x F."""
    gy = answers.mean("outer_y")
    gx = gy.new_zeros(0) if x is None else answers.mean("outer_x")
    return OuterGradients(gx, gy, {"outer_loss": answers.mean_scalar("outer_loss")})
