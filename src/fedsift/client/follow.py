"""What follows v in a round of single-loop, from the forward passes that local steps make anyway.

    J v        ≈ (outputs(y + εv) − outputs(y)) / ε          one forward pass more, without a graph
    Jᵀ Q J v   from the graph of the first step's outputs, which are those at y_k
    scores     ⟨∇ℓ_j, v⟩ of the samples of the first local batches, at the y of their step

A site of N_m samples scores ``scored`` of them in a round, in turn: a round costs the same for any
N_m, and every sample comes round. The local batches begin with these samples. Those that no local
batch has are scored at y_k by a pass of their own.

``passes`` has the same by forward mode, at y_k alone: the reference, and what is done where
differences are not exact enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedsift.algorithms.outer_step import Scoring
from fedsift.client.inputs import direction
from fedsift.client.passes import Cross
from fedsift.client.state import Client, ClientState
from fedsift.client.training import CONTROL
from fedsift.hypergradient import CurvatureSettings
from fedsift.messages import Request
from fedsift.problem import SampleWeighting
from fedsift.problem.sample_losses import label_agreement
from fedsift.problem.sgd import LocalSteps, Seen
from fedsift.problem.tangents import difference
from fedsift.randomness import generator

GOLDEN = 0.6180339887


def follows(members: Sequence[tuple[Client, ClientState]], request: Request) -> bool:
    """Return whether the clients may use differences, and each has an x per sample."""
    if (
        CONTROL in request.arrays
        or request.action != "step"
        or not request.read(Scoring).differences
    ):
        return False
    if request.read(CurvatureSettings).kind != "gauss-newton":
        return False
    if any(state.x is None for _, state in members):
        return False
    problems = {id(client.problem): client.problem for client, _ in members}
    return all(isinstance(problem, SampleWeighting) for problem in problems.values())


def in_turn(n: int, size: int, seed: int, k: int, client: int) -> Tensor:
    """Return ``size`` of n positions in round k: the next ones of a walk that visits all n in turn.

    Its stride has no factor in common with n and is near the golden section of it, so that what
    lies together in a file does not come together. No permutation of all n is drawn.
    """
    stride = max(1, round(GOLDEN * n))
    while math.gcd(stride, n) > 1:
        stride += 1
    start = torch.randint(n, (), generator=generator(seed, client, "scored"))
    size = min(size, n)
    places = torch.arange(k * size, (k + 1) * size) % n
    return (start + places * stride) % n


@dataclass(frozen=True, eq=False)
class Turn:
    """The samples of a client whose turn it is in a round.

    ``first`` begins its local batches; of these, ``along`` are scored there, and ``left`` are
    scored at y_k by a pass of their own. None, where a batch has all its samples.
    """

    first: Tensor | None
    along: int
    left: Tensor | None

    @classmethod
    def of(cls, client: Client, request: Request) -> Turn:
        """Return the samples of a round."""
        local, n = request.read(LocalSteps), len(client.batch)
        if local.batch_size <= 0 or local.batch_size >= n:
            return cls(None, n, None)
        size = request.read(Scoring).scored or n
        first = in_turn(n, min(size, n), client.seed, request.round, client.id)
        steps = min(local.steps, n // local.batch_size)
        along = min(len(first), steps * local.batch_size)
        return cls(first, along, first[along:] if along < len(first) else None)


@dataclass(eq=False)
class Follower:
    """Watches the local steps of clients with a model in common, and follows v beside them.

    ``curved`` and ``along`` are how many samples of a client are wanted for the product (0: all of
    the first step) and for scores; whole chunks are taken.
    """

    problem: SampleWeighting
    v: Tensor
    curved: int
    along: int
    product: Tensor | None = None
    bent: int = 0
    seen: int = 0
    parts: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)

    @classmethod
    def of(cls, problem: SampleWeighting, request: Request, length: int, turn: Turn) -> Follower:
        """Make one for a request; of samples that come in one order, all are curved."""
        curved = 0 if turn.first is None else request.read(CurvatureSettings).batch_size
        return cls(problem, direction(request, length), curved, turn.along)

    def __call__(self, seen: Seen) -> None:
        """Take what is wanted of a forward pass."""
        bends = seen.step == 0 and (self.bent < self.curved or not self.curved)
        if not bends and self.seen >= self.along:
            return
        outputs = seen.outputs.detach()
        along = difference(seen.run, seen.y.detach(), outputs, self.v)
        rows, moved = outputs.flatten(0, -2), along.flatten(0, -2)
        labels, count = seen.labels.flatten(), seen.labels.shape[-1]
        scores = self.problem.scores(rows, moved, labels).view_as(seen.labels)
        agreement = label_agreement(rows, labels).view_as(seen.labels)
        self.parts.append((seen.positions, scores, agreement))
        self.seen += count
        if bends:
            u = self.problem.bent(seen.weights, outputs, along)
            (own,) = torch.autograd.grad(seen.outputs, seen.y, u, retain_graph=True)
            self.product = own if self.product is None else self.product + own
            self.bent += count

    def products(self, damping: float) -> Tensor:
        """Return (Jᵀ Q J + l2 + damping) v, a row for every client where there are several."""
        assert self.product is not None
        return self.product / self.bent + (self.problem.l2 + damping) * self.v

    def cross(self, x: Tensor, along: int, row: int | None = None) -> Cross:
        """Return ∇²_xy g v of a client, as far as its samples were seen."""
        parts = [
            torch.cat([values if row is None else values[row] for values in kind])[:along]
            for kind in zip(*self.parts, strict=True)
        ]
        at, scores, agreement = parts
        value = torch.zeros_like(x).index_put_((at,), (scores / len(x)).to(x))
        agrees = torch.zeros_like(x).index_put_((at,), agreement.to(x))
        return Cross(value, agrees, at)
