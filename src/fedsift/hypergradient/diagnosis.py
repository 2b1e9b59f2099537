"""Which estimator fits a system, and why: measured at one point (x, y), with the cohort's help.

| number       | how                                                                         |
|--------------|-----------------------------------------------------------------------------|
| λ_max, λ_min | Lanczos with ``PRODUCTS`` uncompressed products, from ∇_y F                 |
| stable rank  | d · E‖Hz‖² / λ_max² over random unit z, ``PROBES`` of them                  |
| top share    | of ‖H∇_yF‖² in its d/20 largest numbers: what Top-k at rate 20 would keep   |
| bytes        | of every candidate, up and down, until its residual is ``goal``             |

A candidate is run for 1, 2, 4, ... iterations until its residual is reached, it is dearer than the
best one so far, or it has had its ``most``; then the smallest number that is enough is found by
bisection. So the advice is a measurement, not a formula: its cost is that of the exchanges, which
is reported. Every run has an epoch of its own: clients keep what EF21 has sent, by the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import count
from typing import Any

import torch
from torch import Tensor

from fedsift.compress import Compressor, CountSketch, Identity, TopK, feedback_for
from fedsift.hypergradient.estimate import CurvatureSettings, Estimator, Point, SolverState
from fedsift.hypergradient.iterative import Constant, Iterative
from fedsift.hypergradient.nystrom import Nystrom
from fedsift.hypergradient.products import exact_product
from fedsift.hypergradient.series import Conjugate, Neumann, Series
from fedsift.messages import Cohort
from fedsift.problem.largest_curvature import ritz_values
from fedsift.randomness import generator

PRODUCTS, PROBES, LIMIT, RATE = 16, 4, 32, 20
LONGEST = 128  # products of conjugate gradients, which the others are compared with
RATES, FACTORS = (5, 20, 100), (1.0, 0.25)  # steps of Algorithm 2, in 1 / λ_max
EPOCHS = 2**40  # none that a run has counted to
COLUMNS_OF_SKETCH = 5


@dataclass(frozen=True)
class Candidate:
    """An estimator as a function of its number of iterations, and how a user would ask for it."""

    method: str
    settings: dict[str, Any]
    counted: str
    make: Callable[[int], Estimator]
    most: int = LIMIT


@dataclass(frozen=True)
class Tried:
    """What a candidate needed; ``bytes`` is of one estimate, up and down, of the whole cohort."""

    method: str
    settings: dict[str, Any]
    residual: float
    bytes: int
    exchanges: int


@dataclass(frozen=True)
class Diagnosis:
    """The numbers of a system, what was tried, and what follows.

    Attributes:
        largest: λ_max of the matrix, damping included.
        smallest: The smallest Ritz value: an upper bound of λ_min.
        stable_rank: ‖H‖_F² / ‖H‖², about how many directions are curved as the first.
        top_share: Share of a product's squared norm in its d / 20 largest numbers.
        reached: The residual of the v that the run had; None where it had none.
        goal: The residual that candidates had to reach.
        tried: Those that did, cheapest first.
        cost: Bytes of the diagnosis itself.
        advice: Sentences.
    """

    largest: float
    smallest: float
    stable_rank: float
    top_share: float
    reached: float | None
    goal: float
    tried: tuple[Tried, ...]
    cost: int
    advice: str

    def to_json(self) -> dict[str, Any]:
        """Return it for a file."""
        return asdict(self)

    def __str__(self) -> str:
        return self.advice


def diagnose(
    cohort: Cohort,
    point: Point,
    curvature: CurvatureSettings,
    goal: float = 0.1,
    reached: float | None = None,
    seed: int = 0,
) -> Diagnosis:
    """Measure the system at a point and try every candidate on it."""
    before = cohort.federation.traffic
    b = point.outer_gradient
    bare = replace(curvature, damping=0.0)

    def product(v: Tensor) -> Tensor:
        return exact_product(cohort, point, v, bare) + curvature.damping * v

    ritz = ritz_values(product, b if bool(b.any()) else torch.ones_like(b), PRODUCTS)
    largest, smallest = float(ritz[-1]), float(ritz[0])
    source = generator(seed, point.round, "diagnosis")
    probes = [torch.randn(len(b), generator=source).to(b) for _ in range(PROBES)]
    squares = [float(product(z / z.norm()).square().sum()) for z in probes]
    stable = len(b) * sum(squares) / PROBES / max(largest**2, 1e-30)
    top = _top_share(product(b), RATE)
    tried: list[Tried] = []
    if largest > 0.0:
        turns = count(EPOCHS)
        for candidate in candidates(len(b), curvature, 1.0 / largest, seed):
            best = min((one.bytes for one in tried), default=None)
            found = _cheapest(cohort, point, candidate, goal, best, turns)
            tried += [found] if found is not None else []
    traffic = cohort.federation.traffic - before
    ordered = tuple(sorted(tried, key=lambda one: one.bytes))
    cost = traffic.bytes_up + traffic.bytes_down
    said = _advice(largest, smallest, stable, top, reached, goal, ordered, curvature)
    return Diagnosis(largest, smallest, stable, top, reached, goal, ordered, cost, said)


def candidates(
    length: int, curvature: CurvatureSettings, step: float, seed: int
) -> list[Candidate]:
    """Return what is tried, for d = ``length``; ``step`` is 1 / λ_max."""
    plain = Identity(length)
    shared: dict[str, Any] = {"curvature": curvature, "seed": seed}

    def iterative(name: str, rate: int, made: Compressor, factor: float) -> Candidate:
        feedback = feedback_for(made, "ef21")
        lr = factor * step * feedback.step_share

        def make(n: int) -> Estimator:
            return Iterative(feedback, n, Constant(lr), warm_start=False, **shared)

        asked = {"rate": rate, "feedback": "ef21", "warm_start": False, "solver_lr": _short(lr)}
        return Candidate(name, asked, "iterations", make)

    def neumann(n: int) -> Estimator:
        return Series(plain, Neumann(step), n, **shared)

    def conjugate(n: int) -> Estimator:
        return Series(plain, Conjugate(), n, **shared)

    found = [
        Candidate("cg", {}, "terms", conjugate, LONGEST),
        Candidate("neumann", {"solver_lr": _short(step)}, "terms", neumann),
        Candidate("nystrom", {}, "rank", lambda n: Nystrom(min(n, length), **shared)),
    ]
    for rate in RATES:
        k, columns = length // rate, length // (rate * COLUMNS_OF_SKETCH)
        for factor in FACTORS if k >= 1 else ():
            found.append(iterative("iter-topk", rate, TopK(length, k), factor))
        if columns >= 1:
            sketch = CountSketch(length, COLUMNS_OF_SKETCH, columns, seed)
            found.append(iterative("iter-sketch", rate, sketch, 1.0))
    return found


def _short(step: float) -> float:
    """Return a step as it is said: three digits."""
    return float(f"{step:.3g}")


def _cheapest(
    cohort: Cohort,
    point: Point,
    candidate: Candidate,
    goal: float,
    best: int | None,
    turns: Iterator[int],
) -> Tried | None:
    """Return the fewest iterations with which a candidate reaches the goal; None: it does not."""

    def run(size: int) -> Tried:
        before = cohort.federation.traffic
        fresh = SolverState(epoch=next(turns))
        estimate, _ = candidate.make(size).estimate(cohort, point, fresh)
        used = cohort.federation.traffic - before
        residual = 1.0 if estimate.residual is None else estimate.residual
        settings = {**candidate.settings, candidate.counted: size}
        total = used.bytes_up + used.bytes_down
        return Tried(candidate.method, settings, residual, total, used.exchanges)

    failed, size = 0, 1
    while (now := run(size)).residual > goal:
        dearer = best is not None and now.bytes >= best
        if dearer or size >= min(candidate.most, 2 * len(point.y)):
            return None
        failed, size = size, 2 * size
    enough = now
    while size - failed > 1:
        middle = (failed + size) // 2
        now = run(middle)
        if now.residual <= goal:
            size, enough = middle, now
        else:
            failed = middle
    return enough


def _top_share(vector: Tensor, rate: int) -> float:
    squares = vector.square()
    kept = squares.topk(max(1, len(vector) // rate)).values.sum()
    return float(kept / squares.sum().clamp(min=1e-30))


def _advice(
    largest: float,
    smallest: float,
    stable: float,
    top: float,
    reached: float | None,
    goal: float,
    tried: tuple[Tried, ...],
    curvature: CurvatureSettings,
) -> str:
    said = [
        f"Curvature between {smallest:.3g} and {largest:.3g} (damping {curvature.damping:g} "
        f"included), stable rank {stable:.3g}; the 5 % largest numbers of a product hold "
        f"{100 * top:.0f} % of its energy."
    ]
    if reached is not None:
        said.append(f"The v of the run had a residual of {reached:.2g} (v = 0 has 1).")
    if smallest < 0.0:
        said.append(
            f"The matrix is indefinite: use curvature 'gauss-newton' or a damping of at least "
            f"{curvature.damping - smallest:.2g}."
        )
    if not tried:
        said.append(
            f"Nothing that was tried reached a residual of {goal:g}: raise the damping, for "
            f"example to {curvature.damping + 0.01 * max(largest, 0.0):.2g}."
        )
        return " ".join(said)
    first = tried[0]
    said.append(
        f"For a residual of {goal:g} use {_spelt(first)}, damping = {curvature.damping:g}: "
        f"{first.bytes / 1e3:.3g} kB and {first.exchanges} exchanges per estimate, since "
        f"{_why(first, largest / max(smallest, 1e-30), stable, top)}."
    )
    if len(tried) > 1:
        said.append(f"Next is {_spelt(tried[1])} with {tried[1].bytes / 1e3:.3g} kB.")
    return " ".join(said)


def _spelt(one: Tried) -> str:
    keys = ", ".join(f"{name} = {value}" for name, value in one.settings.items())
    return f"{one.method} with {keys}"


def _why(one: Tried, condition: float, stable: float, top: float) -> str:
    """Return what of the numbers speaks for a choice."""
    if one.method == "cg":
        return (
            f"its {one.settings['terms']} whole products are fewer bytes than the compressed ones "
            f"that condition {condition:.3g} asks for"
        )
    if one.method == "neumann":
        return f"at condition {condition:.3g} a few plain steps of 1 / λ_max are enough"
    if one.method == "nystrom":
        return f"few directions are curved, by the stable rank of {stable:.3g}"
    if top > 0.5:
        return f"the 5 % largest numbers of a product hold {100 * top:.0f} % of it"
    return "its cheaper exchanges outweigh that it needs more of them"
