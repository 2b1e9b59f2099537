"""F at the clients: f_m and its gradients, on samples that a client keeps for it.

F(x, y) = Σ_m (N_m / N) f_m(x, y)
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from fedsift.client.inputs import point
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.compress import Payload
from fedsift.errors import InputError
from fedsift.messages import Request, Scalar
from fedsift.problem import outer_loss_and_gradients


def outer_gradient(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:  # noqa: ARG001
    """Reply with ∇_y f_m, with ∇_x f_m where x is shared, and with f_m."""
    x, y, state = point(client, state, request)
    return Outcome(*outer_parts(client, state, x, y), replace(state, y=y))


def outer_parts(
    client: Client, state: ClientState, x: Tensor, y: Tensor
) -> tuple[dict[str, Payload], dict[str, Scalar]]:
    """Return what a reply has of f_m at (x, y)."""
    if client.validation is None:
        raise InputError(
            f"client {client.id} has no validation samples; give every client its own, or the "
            "server a validation set"
        )
    loss, gx, gy = outer_loss_and_gradients(client.problem, x, y, client.validation)
    arrays: dict[str, Payload] = {"outer_y": gy}
    if state.x is None:
        arrays["outer_x"] = gx
    return arrays, {"outer_loss": float(loss)}
