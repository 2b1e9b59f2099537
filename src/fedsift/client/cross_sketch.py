"""Algorithm 3, line 4 as it is listed, where x is shared: both sketches in one reply.

    S_2 ∇²_yy g_m S_1ᵀ    and    ∇²_xy g_m S_1ᵀ,    r_2 × r_1 and dim x × r_1 numbers

The server then has ∇²_xy G v = (∇²_xy G S_1ᵀ) ω for any ω without asking again. A private x is
never asked about like this: the second would be scores of single samples.
"""

from __future__ import annotations

import torch

from fedsift.client.inputs import point
from fedsift.client.passes import cross_pass
from fedsift.client.products import sketch
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.errors import InputError
from fedsift.hypergradient.non_iterative import SubspaceSeed
from fedsift.messages import Request


def sketch_both(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:
    """Reply with the sketched system, and with ∇²_xy g_m S_1ᵀ."""
    if state.x is not None:
        raise InputError(f"client {client.id} keeps its part of x; it gives no cross sketch of it")
    system = sketch(client, state, request, shared)
    x, y, _ = point(client, system.state, request)
    S1, total = request.read(SubspaceSeed).embedding(len(y)), len(client.batch)
    rows = torch.eye(S1.rows, dtype=y.dtype, device=y.device)
    columns = [
        cross_pass(client.problem, x, y, client.batch, S1.transpose_apply(row), total).value
        for row in rows
    ]
    return Outcome({**system.arrays, "cross": torch.stack(columns, -1)}, {}, system.state)
