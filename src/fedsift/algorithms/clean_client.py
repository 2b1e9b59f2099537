"""The server's clean set as one more client: it trains along, with a plain loss, weighed by its N.

y_k+1 = y_k + (Σ_m N_m Δ_m + N_val Δ_val) / (Σ_m N_m + N_val)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from fedsift.algorithms.clean_set import fit
from fedsift.algorithms.state import Server
from fedsift.messages import Answers, Reply
from fedsift.problem.sgd import LocalSteps
from fedsift.randomness import generator

CLEAN = -1  # its number, which no client has


def with_clean_client(
    server: Server,
    answers: Answers,
    y: Tensor,
    local: LocalSteps,
    k: int,
    part: Any | None = None,
) -> Answers:
    """Add local steps from y on the clean set, or a part of it, to the clients' replies."""
    part = server.validation if part is None else part
    source = generator(server.seed, k, "clean client")
    trained = fit(server, y, part, local, source, "the model on the clean set")
    own = Reply(CLEAN, len(part), {"update": trained - y})
    return replace(answers, replies=(*answers.replies, own))
