"""F at the clients: f_m and its gradients, on samples that a client keeps for it.

F(x, y) = Σ_m (N_m / N) f_m(x, y)
"""

from __future__ import annotations

from dataclasses import replace

from fedsift.client.inputs import point
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.compress import Payload
from fedsift.errors import InputError
from fedsift.messages import Request
from fedsift.problem import outer_loss_and_gradients


def outer_gradient(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:  # noqa: ARG001
    """Reply with ∇_y f_m, with ∇_x f_m where x is shared, and with f_m."""
    if client.validation is None:
        raise InputError(
            f"client {client.id} has no validation samples; give every client its own, or the "
            "server a validation set"
        )
    x, y, state = point(client, state, request)
    loss, gx, gy = outer_loss_and_gradients(client.problem, x, y, client.validation)
    arrays: dict[str, Payload] = {"outer_y": gy}
    if state.x is None:
        arrays["outer_x"] = gx
    return Outcome(arrays, {"outer_loss": float(loss)}, replace(state, y=y))
