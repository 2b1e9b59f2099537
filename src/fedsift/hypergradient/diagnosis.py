"""Which estimator fits a system, and why: measured at one point (x, y), with the cohort's help.

| number       | how                                                                         |
|--------------|-----------------------------------------------------------------------------|
| λ_max, λ_min | Lanczos with ``PRODUCTS`` uncompressed products, from ∇_y F                 |
| stable rank  | d · E‖Hz‖² / λ_max² over random unit z, ``PROBES`` of them                  |
| top share    | of ‖H∇_yF‖² in its d/20 largest numbers: what Top-k at rate 20 would keep   |
| bytes        | of every candidate, up and down, until its residual is ``goal``             |

A candidate is run for 1, 2, 4, ... iterations until its residual is reached, it is dearer than the
best one so far, or ``LIMIT`` is; then the smallest number that is enough is found by bisection. So
the advice is a measurement, not a formula: its cost is that of the exchanges, which is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedsift.compress import CountSketch, Identity, TopK, feedback_for
from fedsift.hypergradient.estimate import CurvatureSettings, Estimator, Point, SolverState
from fedsift.hypergradient.iterative import Constant, Iterative
from fedsift.hypergradient.nystrom import Nystrom
from fedsift.hypergradient.products import exact_product
from fedsift.hypergradient.series import Conjugate, Neumann, Series
from fedsift.messages import Cohort
from fedsift.problem.largest_curvature import ritz_values
from fedsift.randomness import generator

PRODUCTS, PROBES, LIMIT, RATE = 16, 4, 32, 20
RATES = (5, 20, 100)
COLUMNS_OF_SKETCH = 5


@dataclass(frozen=True)
class Candidate:
    """An estimator as a function of its number of iterations, and how a user would ask for it."""

    method: str
    settings: dict[str, Any]
    counted: str
    make: Callable[[int], Estimator]


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
        for candidate in candidates(len(b), curvature, 1.0 / largest, seed):
            best = min((one.bytes for one in tried), default=None)
            found = _cheapest(cohort, point, candidate, goal, best)
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

    def iterative(form: str, made: Any) -> Callable[[int], Estimator]:
        feedback = feedback_for(made, form)
        steps = Constant(step * feedback.step_share)
        return lambda n: Iterative(feedback, n, steps, warm_start=False, **shared)

    found = [
        Candidate("cg", {}, "terms", lambda n: Series(plain, Conjugate(), n, **shared)),
        Candidate("neumann", {}, "terms", lambda n: Series(plain, Neumann(step), n, **shared)),
        Candidate("nystrom", {}, "rank", lambda n: Nystrom(min(n, length), **shared)),
    ]
    for rate in RATES:
        k, columns = length // rate, length // (rate * COLUMNS_OF_SKETCH)
        asked = {"rate": rate, "feedback": "ef21"}
        if k >= 1:
            made = iterative("ef21", TopK(length, k))
            found.append(Candidate("iter-topk", asked, "iterations", made))
        if columns >= 1:
            sketch = CountSketch(length, COLUMNS_OF_SKETCH, columns, seed)
            found.append(Candidate("iter-sketch", asked, "iterations", iterative("ef21", sketch)))
    return found


def _cheapest(
    cohort: Cohort, point: Point, candidate: Candidate, goal: float, best: int | None
) -> Tried | None:
    """Return the fewest iterations with which a candidate reaches the goal; None: it does not."""

    def run(count: int) -> Tried:
        before = cohort.federation.traffic
        estimate, _ = candidate.make(count).estimate(cohort, point, SolverState())
        used = cohort.federation.traffic - before
        residual = 1.0 if estimate.residual is None else estimate.residual
        settings = {**candidate.settings, candidate.counted: count}
        total = used.bytes_up + used.bytes_down
        return Tried(candidate.method, settings, residual, total, used.exchanges)

    failed, count = 0, 1
    while (now := run(count)).residual > goal:
        if count >= LIMIT or (best is not None and now.bytes >= best):
            return None
        failed, count = count, 2 * count
    enough = now
    while count - failed > 1:
        middle = (failed + count) // 2
        now = run(middle)
        if now.residual <= goal:
            count, enough = middle, now
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
        f"For a residual of {goal:g} use {_spelt(first)}: {first.bytes / 1e3:.3g} kB and "
        f"{first.exchanges} exchanges per estimate."
    )
    if len(tried) > 1:
        said.append(f"Next is {_spelt(tried[1])} with {tried[1].bytes / 1e3:.3g} kB.")
    return " ".join(said)


def _spelt(one: Tried) -> str:
    keys = ", ".join(f"{name} = {value}" for name, value in one.settings.items())
    return f"{one.method} with {keys}"
