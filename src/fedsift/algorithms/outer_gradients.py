"""F and its gradients at (x, y), wherever the samples of F are.

| F                       | samples                | exchanges |
|-------------------------|------------------------|-----------|
| F(x, y)                 | at the server          | 0         |
| Σ_m (N_m / N) f_m(x, y) | at the clients, of f_m | 1         |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from fedsift.algorithms.state import AtClients, Server
from fedsift.messages import Cohort, Request
from fedsift.problem import outer_gradients


@dataclass(frozen=True, eq=False)
class OuterGradients:
    """∇_x F and ∇_y F; ``metrics`` has F where it is the clients'."""

    gx: Tensor
    gy: Tensor
    metrics: Mapping[str, float] = field(default_factory=dict)
    events: tuple[str, ...] = ()


def outer_gradients_at(
    cohort: Cohort, server: Server, x: Tensor | None, y: Tensor, k: int
) -> OuterGradients:
    """Return them by the server's validation set, or ask the cohort; x is None where private."""
    own = y.new_zeros(0) if x is None else x
    if not isinstance(server.validation, AtClients):
        return OuterGradients(*outer_gradients(server.problem, own, y, server.validation))
    arrays = {"y": y} if x is None else {"y": y, "x": x}
    answers = cohort.ask(Request("outer-gradient", k, arrays))
    gx = own if x is None else answers.mean("outer_x")
    loss = {"outer_loss": answers.mean_scalar("outer_loss")}
    return OuterGradients(gx, answers.mean("outer_y"), loss, answers.events)
