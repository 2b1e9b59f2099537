"""Local steps of many small clients at once (``Stackable``), instead of one client after another.

Clients with batches of equal length go together, some thousand samples at a time, each with a model
of its own. Large models are not stacked: reading their parameters is the work then, and copies of
them would only take memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from torch import Tensor

from fedsift.algorithms.fedavg import LocalSteps, Trained, stacked_sgd
from fedsift.client.answer import Site, SiteState, batches, local_steps
from fedsift.messages import Action, ClientId, Request
from fedsift.problem import Stackable

SAMPLES = 1280  # in a stack: more is hardly faster
PARAMETERS = 2**20  # in a stack
TRAINING = (Action.TRAIN, Action.STEP, Action.ASSESS, Action.JUDGE)
Members = Sequence[tuple[Site, SiteState]]


def trained(members: Members, request: Request) -> dict[ClientId, Trained]:
    """Return the local steps of those clients that can be stacked."""
    y = request.arrays.get("y")
    if request.action not in TRAINING or not isinstance(y, Tensor):
        return {}
    local, found = local_steps(request), dict[ClientId, Trained]()
    for problem, stack in _stacks(members, local, PARAMETERS // len(y)):
        clients = [(x, site.batch, batches(site, request)) for site, x in stack]
        results = stacked_sgd(problem, clients, y, local) or []
        found |= {site.client: result for (site, _), result in zip(stack, results, strict=False)}
    return found


def _stacks(
    members: Members, local: LocalSteps, models: int
) -> Iterator[tuple[Stackable, list[tuple[Site, Tensor]]]]:
    """Cut the cohort into stacks of clients that have a problem and a batch length in common."""
    alike = defaultdict[tuple[int, int], list[tuple[Site, Tensor]]](list)
    for site, state in members:
        n = len(site.batch)
        length = min(local.batch_size, n) if local.batch_size > 0 else n
        if state.x is not None and length:
            alike[id(site.problem), length].append((site, state.x))
    for (_, length), group in alike.items():
        problem, step = group[0][0].problem, max(1, min(models, SAMPLES // length))
        stacks = [group[start : start + step] for start in range(0, len(group), step)]
        if isinstance(problem, Stackable):
            yield from ((problem, stack) for stack in stacks if len(stack) > 1)
