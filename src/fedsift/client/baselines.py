"""What the baselines ask of a site, sample by sample: only sums and counts go into a reply.

A look takes the problem, the site's samples, the model y that came, the request and what the site
remembers; it returns arrays and scalars for the reply, and what changes in the site's state.

| look       | baseline       | replies with                               | changes             |
|------------|----------------|--------------------------------------------|---------------------|
| `own_loss` | `focus`        | the mean loss                              |                     |
| `count`    | `preprocess`   | the losses' histogram in the server's bins |                     |
| `keep`     | `preprocess`   | how many samples are kept                  | x, average: 1 or 0  |
| `judge`    | `disagreement` | whether this model is the best so far      | average, memory     |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from fedsift.messages import Request, Scalar
from fedsift.problem import Problem
from fedsift.problem.sample_losses import histogram, keep_below, label_share, sample_losses

Sight = tuple[dict[str, Tensor], dict[str, Scalar], dict[str, Tensor]]
Look = Callable[[Problem, Any, Tensor, Request, Tensor | None], Sight]


def own_loss(problem: Problem, batch: Any, y: Tensor, *_: Any) -> Sight:
    """Return the loss of the model that came, over all samples."""
    return {}, {"own_loss": float(sample_losses(problem, y, batch).mean())}, {}


def count(problem: Problem, batch: Any, y: Tensor, request: Request, *_: Any) -> Sight:
    """Return how many samples have a loss in each of the server's bins."""
    counts = histogram(sample_losses(problem, y, batch), request.array("edges"))
    return {"counts": counts}, {}, {}


def keep(problem: Problem, batch: Any, y: Tensor, request: Request, *_: Any) -> Sight:
    """Weigh samples 1 where the loss is at most the threshold, else 0."""
    x, found = keep_below(sample_losses(problem, y, batch), request.number("threshold"))
    return {}, {"kept": int(x.sum()), "found": found}, {"x": x, "average": x}


def judge(
    problem: Problem, batch: Any, y: Tensor, request: Request, memory: Tensor | None
) -> Sight:
    """Weigh labels by what the model says of them, if none before had a lower validation loss."""
    loss = request.number("validation_loss")
    if memory is not None and not loss < float(memory):
        return {}, {"judged": False}, {}
    changes = {"average": label_share(problem, y, batch), "memory": y.new_tensor([loss])}
    return {}, {"judged": True}, changes
