"""A site's guard: every request is held against the policy, before anything is done.

    1  the action is one that the announced method asks, in an order in which it asks
    2  a step or a product rests on enough samples, counted by their weights:

           min(b, N) (Σ x)² / (N Σ x²) ≥ least_batch         b: batch, N: samples, x: weights

       A minimum on b alone is no defence: who can move weights to 0 trains on the others alone.
    3  replies have noise, and not too many of them, where the owner wants that
    4  nothing large is asked for: steps, step size, bins, products, arrays

What was asked so far (``Asked``) is passed in and returned; the site keeps it on disk, and it is
not taken back when a server resumes a run, so that going back and forth buys no more questions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from torch import Tensor

from fedsift.algorithms.personal import PERSONAL
from fedsift.algorithms.registry import METHODS
from fedsift.algorithms.sequence import Sequence
from fedsift.client.policy import Policy
from fedsift.client.private import PRIVATE
from fedsift.client.state import Client, ClientState, Fewest
from fedsift.compress import Sketch, Sparse
from fedsift.errors import Refused
from fedsift.hypergradient.non_iterative import SketchedSystem
from fedsift.hypergradient.products import Compression
from fedsift.messages import Request
from fedsift.privacy import epsilon_of
from fedsift.problem.protocol import SampleWeighting

ABOUT_SUMS = ("sum-keys", "sum-shares", "sum-reveal")  # of any method; they say nothing of samples
PRODUCTS = ("product", "measure")
KEPT = "train-kept"  # its batches are drawn from the samples of positive weight
ONCE = 3  # contents of a question that comes once in a run: its round may be done again
DELTA = 1e-5  # of the site's own account
SLACK = 1024  # numbers that a compressed vector of a small model may have


@dataclass(frozen=True)
class Asked:
    """What a server has asked in a run.

    ``rounds`` counts rounds, and those done again; ``at`` is the place in the method's sequence;
    ``once`` has for each action that comes once the digests of what was asked; ``spent`` is
    Σ 1 / z² of the replies with noise.
    """

    round: int = -1
    at: int = -1
    rounds: int = 0
    products: int = 0
    once: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    spent: float = 0.0


@dataclass(frozen=True)
class Guard:
    """The policy of a site, and the method that the server announced; of a personal y or not."""

    policy: Policy
    method: str
    personal: bool = False

    def __post_init__(self) -> None:
        allowed = self.policy.methods or tuple(METHODS)
        if self.method not in METHODS or self.method not in allowed:
            raise Refused(
                f"the site's policy does not allow the method '{self.method}'; it allows "
                f"{', '.join(allowed)}"
            )

    @property
    def sequence(self) -> Sequence:
        """The order in which the method asks."""
        return PERSONAL if self.personal else METHODS[self.method].sequence

    @property
    def fewest(self) -> Fewest:
        """How many samples must stand behind what a reply tells."""
        return Fewest(self.policy.least_kept, self.policy.least_counted)

    def admit(
        self, client: Client, state: ClientState, request: Request, asked: Asked, digest: str = ""
    ) -> Asked:
        """Return what was asked including this request, or refuse it."""
        if request.action in ABOUT_SUMS:
            return asked
        if request.action in self.policy.refused_actions:
            raise Refused(f"the site's policy refuses the action '{request.action}'")
        asked = self._noised(request, self._in_order(request, asked, digest))
        self._samples(client, state, request)
        self._sizes(client, request)
        return asked

    def _in_order(self, request: Request, asked: Asked, digest: str) -> Asked:
        """Take the next step of the method's state machine."""
        begins = request.round != asked.round
        found = self.sequence.next(-1 if begins else asked.at, request.action)
        if found is None:
            raise Refused(
                f"the method '{self.method}' does not ask '{request.action}'; the site does what "
                "the method that was announced asks, and nothing else"
            )
        again = begins or found.again
        products = (0 if again else asked.products) + (request.action in PRODUCTS)
        asked = replace(asked, round=request.round, at=found.at, products=products)
        asked = replace(asked, rounds=asked.rounds + again)
        self._at_most("rounds", asked.rounds, self.policy.most_rounds)
        self._at_most("products in a round", products, self.policy.most_products)
        if not found.once:
            return asked
        contents = dict.fromkeys((*asked.once.get(request.action, ()), digest))
        self._at_most(f"times '{request.action}' in a run", len(contents), ONCE)
        return replace(asked, once={**asked.once, request.action: tuple(contents)})

    def _noised(self, request: Request, asked: Asked) -> Asked:
        """Refuse a reply without noise, or one too many with it, where the owner wants noise."""
        most, z = self.policy.most_epsilon, request.scalars.get("dp_noise")
        only_sizes = "sum_total" in request.scalars and "bounds" not in request.arrays
        if not most or only_sizes:
            return asked
        if request.action not in PRIVATE or not isinstance(z, float) or z <= 0:
            raise Refused(
                f"the site's policy wants noise in what '{request.action}' replies; set dp_clip "
                "and dp_epsilon"
            )
        spent = asked.spent + z**-2
        if epsilon_of(math.sqrt(spent), DELTA) > most:
            raise Refused(
                f"the site's policy allows an epsilon of {most:g} in a run, and this request would "
                "pass it; ask for more noise or fewer rounds"
            )
        return replace(asked, spent=spent)

    def _samples(self, client: Client, state: ClientState, request: Request) -> None:
        """Refuse a step or a product that too few samples would stand behind."""
        for name in ("batch_size", "curvature_batch"):
            size = request.scalars.get(name)
            if isinstance(size, int):
                found = effective_batch(size, *_drawn_from(client, state, request))
                if found < self.policy.least_batch - 1e-6:
                    raise Refused(
                        f"'{request.action}' would rest on {found:.3g} samples and the site's "
                        f"policy wants {self.policy.least_batch}; raise {name}, now {size}"
                    )

    def _sizes(self, client: Client, request: Request) -> None:
        policy, scalars = self.policy, request.scalars
        for name, most in (("steps", policy.most_steps), ("lr", policy.most_lr)):
            value = scalars.get(name)
            if isinstance(value, (int, float)) and not 0 <= value <= most:
                raise Refused(f"the site's policy allows {name} up to {most:g}, not {value:g}")
        for name, array in request.arrays.items():
            self._at_most(f"numbers in '{name}'", _numbers(array), policy.most_numbers)
        edges = request.arrays.get("edges")
        if isinstance(edges, Tensor):
            self._at_most("bins", edges.numel() + 1, policy.most_bins)
        if "compressor" in scalars:
            compressor = request.read(Compression).feedback.compressor
            length = getattr(getattr(client.problem, "model", None), "length", compressor.length)
            self._at_most("numbers in a vector", compressor.length, length)
            self._at_most("numbers in a compressed vector", compressor.numbers, length + SLACK)
        if request.action == "sketch":
            system = request.read(SketchedSystem)
            rows = max(system.r1, system.r2)
            self._at_most("numbers in a sketched system", system.r1 * rows, policy.most_numbers)

    def _at_most(self, what: str, found: int, most: int) -> None:
        if found > most:
            raise Refused(f"the site's policy allows {most} {what}, not {found}")


def effective_batch(size: int, n: int, x: Tensor | None) -> float:
    """Return how many samples a batch rests on, counted by their weights."""
    batch = float(min(size, n) if size > 0 else n)
    if x is None or not x.numel():
        return batch
    total, square = float(x.sum()), float(x.square().sum())
    return batch * total**2 / (len(x) * square) if square > 0 else 0.0


def _drawn_from(client: Client, state: ClientState, request: Request) -> tuple[int, Tensor | None]:
    """Return how many samples a batch is drawn from, and their weights, where x is that."""
    if not isinstance(client.problem, SampleWeighting):
        return len(client.batch), None
    if request.action == KEPT and state.x is not None:
        return int(state.x.count_nonzero()), None
    return len(client.batch), state.x


def _numbers(array: object) -> int:
    if isinstance(array, (Sparse, Sketch)):
        return array.length
    return array.numel() if isinstance(array, Tensor) else 0
