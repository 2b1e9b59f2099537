"""The server's clean samples: split them, take steps on them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedsift.algorithms.state import Server
from fedsift.errors import ConfigError, Diverged
from fedsift.problem.sgd import LocalSteps, local_sgd
from fedsift.randomness import generator


def split_validation(server: Server, share: float, purpose: str) -> tuple[Any, Any]:
    """Split the validation set at random, to train on ``share`` of it and measure on the rest."""
    n = len(server.validation)
    cut = int(share * n)
    if not 0 < cut < n:
        raise ConfigError(
            f"the validation set has {n} samples, too few to train a {purpose} model on some and "
            "measure it on others; give a larger one"
        )
    order = torch.randperm(n, generator=generator(server.seed, f"{purpose} split"))
    return server.validation.take(order[:cut]), server.validation.take(order[cut:])


def fit(
    server: Server, y: Tensor, part: Any, local: LocalSteps, source: torch.Generator, what: str
) -> Tensor:
    """Take local steps from y on clean samples, each of weight 1."""
    trust = torch.ones_like(server.problem.initial_x(server.validation))
    y = local_sgd(server.problem, trust, y, part, local, source).y
    if not bool(torch.isfinite(y).all()):
        raise Diverged(f"{what} is not finite; lower inner_lr (now {local.lr:g})")
    return y
