"""Local steps of many small clients at once, instead of one client after another.

Clients with batches of equal length go together, some thousand samples at a time, each with a model
of its own. Large models are not stacked: reading their parameters is the work then, and copies of
them would only take memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from fedsift.algorithms.posterior import Optimism
from fedsift.client import Client, ClientState, Shared
from fedsift.client.follow import Follower, Turn
from fedsift.client.inputs import batch_generator
from fedsift.client.posterior import weighed
from fedsift.hypergradient import CurvatureSettings
from fedsift.messages import ClientId, Request
from fedsift.problem import SampleWeighting
from fedsift.problem.posterior_loss import PosteriorLoss
from fedsift.problem.sgd import LocalSteps, Trained, stacked_sgd

SAMPLES = 1280  # in a stack: more is hardly faster
PARAMETERS = 2**20  # in a stack
STACKED = ("train", "step", "assess", "judge", "first-order", "clean-step")  # all take local steps
Members = Sequence[tuple[Client, ClientState]]


def trained(members: Members, request: Request, name: str = "y") -> dict[ClientId, Trained]:
    """Return the local steps, from the array of this name, of those clients that can be stacked."""
    y = request.arrays.get(name)
    if request.action not in STACKED or not isinstance(y, Tensor):
        return {}
    local, found = request.read(LocalSteps), dict[ClientId, Trained]()
    for problem, stack in _stacks(members, local, PARAMETERS // len(y)):
        parts = [(x, client.batch, batch_generator(client, request)) for client, x in stack]
        results = stacked_sgd(problem, parts, y, local) or []
        found |= {client.id: r for (client, _), r in zip(stack, results, strict=False)}
    return found


def followed(
    members: Members, request: Request, turn_of: Mapping[ClientId, Turn]
) -> dict[ClientId, Shared]:
    """Do ``client.single_loop.followed`` for those clients that can be stacked.

    The samples of a turn that no local batch has are left out of the cross products.
    """
    y, local = request.array("y"), request.read(LocalSteps)
    curvature, found = request.read(CurvatureSettings), dict[ClientId, Shared]()
    for problem, stack in _stacks(members, local, PARAMETERS // len(y)):
        turns = [turn_of[client.id] for client, _ in stack]
        watch = Follower.of(problem, request, len(y), max(turns, key=lambda turn: turn.along))
        watch.curved = 0  # a step of a stack has one chunk: all of it
        parts = [(x, client.batch, batch_generator(client, request)) for client, x in stack]
        firsts = [turn.first for turn in turns]
        results = stacked_sgd(problem, parts, y, local, firsts=firsts, watch=watch)
        if results is None:
            continue
        products = watch.products(curvature.damping)
        for row, (client, x) in enumerate(stack):
            cross = watch.cross(x, turns[row].along, row)
            found[client.id] = Shared(trained=results[row], product=products[row], cross=cross)
    return found


def posterior(members: Members, request: Request) -> dict[ClientId, Shared]:
    """Weigh the labels of clients that can be stacked, and take their local steps."""
    y, local, sent = request.array("y"), request.read(LocalSteps), request.read(Optimism)
    found = dict[ClientId, Shared]()
    for problem, stack in _stacks(members, local, PARAMETERS // len(y)):
        alike = defaultdict[int, list[Client]](list)
        for client, _ in stack:
            alike[len(client.batch)].append(client)
        for group in alike.values():
            all_weighed = weighed(group, y, request)
            found |= {c.id: Shared(weighed=w) for c, w in zip(group, all_weighed, strict=True)}
        of = [(client, found[client.id].weighed) for client, _ in stack]
        known = [(client, own) for client, own in of if own is not None]
        parts = [
            (own.whole(len(client.batch)), client.batch, batch_generator(client, request))
            for client, own in known
        ]
        loss, firsts = PosteriorLoss(problem, sent.kept), [own.at for _, own in known]
        results = stacked_sgd(loss, parts, y, local, firsts=firsts) or []
        for (client, own), result in zip(known, results, strict=False):
            found[client.id] = Shared(weighed=own, trained=result)
    return found


def _stacks(
    members: Members, local: LocalSteps, models: int
) -> Iterator[tuple[SampleWeighting, list[tuple[Client, Tensor]]]]:
    """Cut the cohort into stacks of clients that have a problem and a batch length in common."""
    alike = defaultdict[tuple[int, int], list[tuple[Client, Tensor]]](list)
    for client, state in members:
        n = len(client.batch)
        length = min(local.batch_size, n) if local.batch_size > 0 else n
        if state.x is not None and length:
            alike[id(client.problem), length].append((client, state.x))
    for (_, length), group in alike.items():
        problem, step = group[0][0].problem, max(1, min(models, SAMPLES // length))
        stacks = [group[start : start + step] for start in range(0, len(group), step)]
        if isinstance(problem, SampleWeighting):
            yield from ((problem, stack) for stack in stacks if len(stack) > 1)
