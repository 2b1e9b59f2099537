"""Theorem 1: ‖v_I − v*‖² of Algorithm 2, in each form of error feedback, against the bound.

    ‖v_I − v*‖² ≤ C_1 / I³ + C_2 / I² + C_3 / I²
    C_1 = ¾ a³ D²,   C_3 = 12 (I + 2a) G² / μ²
    C_2 = 384 (2L + μ) G_c² / (μ³ τ (1 − (1 − τ/2)(1 + 1/a)²))

| symbol   | here                                                                               |
|----------|------------------------------------------------------------------------------------|
| α_i, a   | 8 / (μ (i + a)), a = 40                                                            |
| v_I      | the mean of v_0 .. v_I−1 with weights (i + a)²                                     |
| τ        | k of the d, or 8, coordinates that there are: what Top-k takes at least            |
| D, G     | the largest ‖v_i‖ and the largest client's ‖H_m v_i − ∇_yF‖ that occurred           |
| G_c      | the same of what is compressed: H_m v_i in the listing, H_m v_i − ∇_yF in Eq. 12    |

The theorem is proved for Eq. 12 with a compressor that takes a share τ of α ∇q + e away. Top-k
does, of any vector. Heavy hitters out of a count sketch do where that sum has some. The assumption
is of ∇q alone: on a partly heavy system ∇q has heavy hitters at the start, e soon has none, and the
sketch fails. So of a sketch something is claimed only where all of ∇q is in 8 coordinates.

``apart`` is how far the compressed v_I is from the uncompressed one; 0: nothing was compressed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor

from fedsift.compress import Compressor, CountSketch, Feedback, Identity, TopK, feedback_for
from fedsift.experiment.theory.case import Case
from fedsift.experiment.theory.checks import Check, slopes
from fedsift.experiment.theory.watch import Watch
from fedsift.hypergradient import Iterative, Theorem
from fedsift.problem import random_quadratic
from fedsift.problem.shaped_quadratic import Shape

MU, CONDITION, SHIFT = 1.0, 4.0, 40.0
MARGIN = 0.1  # by which a fitted exponent may be above −1
APART = 1e-6


@dataclass(frozen=True)
class System:
    """How a system is drawn, how much is kept of a product, and whether e has heavy hitters too."""

    draw: Callable[[int], Case]
    k: int
    columns: int
    heavy: bool = False
    coordinates: int | None = None  # that ∇q has at all; None: d


SYSTEMS = {
    "dense": System(lambda seed: Case.of(Shape(100, CONDITION), seed), 20, 20),
    "partly heavy": System(
        lambda seed: Case.of(Shape(200, CONDITION, mixing=0.1, decay=1.0), seed), 20, 30
    ),
    "8 of 400": System(
        lambda seed: Case.made(
            random_quadratic(length=400, heavy=8, clients=2, condition=CONDITION, seed=seed)
        ),
        *(3, 64),
        heavy=True,
        coordinates=8,
    ),
}
COMPRESSORS = ("topk", "count-sketch")
FORMS = {"listing": "as listed", "gradient": "Eq. 12", "ef21": "EF21"}
Make = Callable[[Compressor, str], Feedback]


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    draws: int
    iterations: tuple[int, ...]


SIZES = {"quick": Size(1, (40, 80)), "paper": Size(2, (40, 80, 160))}


def measure(scale: str, make: Make = feedback_for) -> dict[str, Any]:
    """Measure every form on every system; ``make`` is another one in tests."""
    size, series, checks = SIZES[scale], [], []
    for name, system in SYSTEMS.items():
        cases = [system.draw(seed) for seed in range(size.draws)]
        plain = [_path(case, make(Identity(case.v.numel()), "listing"), size) for case in cases]
        for kind in COMPRESSORS:
            for form in FORMS:
                found = _measured(cases, plain, system, kind, form, size, make)
                series.append({"system": name, "compressor": kind, "form": form, **found})
                checks.append(_check(series[-1], system))
    return {"series": series, "checks": [check.to_json() for check in checks]}


def _measured(
    cases: list[Case],
    plain: list[list[Tensor]],
    system: System,
    kind: str,
    form: str,
    size: Size,
    make: Make,
) -> dict[str, Any]:
    """Return squared errors by I, the bound, the exponent, and how much compression changed."""
    errors, bounds, apart = [], [], []
    for seed, (case, reference) in enumerate(zip(cases, plain, strict=True)):
        path = _path(case, make(compressor(kind, system, len(case.v), seed), form), size)
        means = averages(path, size.iterations)
        errors.append([case.error(v) ** 2 if v is not None else math.inf for v in means])
        tau = system.k / (system.coordinates or len(case.v))
        bounds.append(bound(case, path, form, tau, size.iterations))
        last, other = means[-1], averages(reference, size.iterations)[-1]
        assert other is not None
        gap = math.inf if last is None else float((last - other).norm() / case.v.norm())
        apart.append(gap)
    at = list(size.iterations)
    return {
        "iterations": at,
        "median": [median(drawn) for drawn in zip(*errors, strict=True)],
        "lowest": [min(drawn) for drawn in zip(*errors, strict=True)],
        "highest": [max(drawn) for drawn in zip(*errors, strict=True)],
        "bound": [median(drawn) for drawn in zip(*bounds, strict=True)],
        "slope": slopes(at, errors),
        "apart": median(apart),
    }


def compressor(kind: str, system: System, d: int, seed: int) -> Compressor:
    """Return a compressor of the system's size."""
    return TopK(d, system.k) if kind == "topk" else CountSketch(d, 5, system.columns, seed)


def _path(case: Case, feedback: Feedback, size: Size) -> list[Tensor]:
    """Return v_0, v_1, ..., as far as they are finite."""
    steps, watch = Theorem(MU, SHIFT), Watch()
    count = max(size.iterations)
    case.solved(Iterative(feedback, count, steps, warm_start=False, guard=watch))
    b = case.point.outer_gradient
    return [torch.zeros_like(b), steps(0) * b, *watch.seen][:count]


def averages(path: list[Tensor], at: tuple[int, ...]) -> list[Tensor | None]:
    """Return the weighted means of the first I, None where the path ended before."""
    weights = [(i + SHIFT) ** 2 for i in range(len(path))]
    total, found = torch.zeros_like(path[0]), {}
    for i, v in enumerate(path):
        total = total + weights[i] * v
        found[i + 1] = total / sum(weights[: i + 1])
    return [found.get(count) for count in at]


def bound(
    case: Case, path: list[Tensor], form: str, tau: float, at: tuple[int, ...]
) -> list[float]:
    """Return the theorem's right-hand side over ‖v*‖², with the constants that occurred."""
    b, V = case.point.outer_gradient, torch.stack(path)
    D2 = float(V.square().sum(1).max())
    products = [V @ client.A for client in case.clients]
    G2 = max(float((Hv - b).square().sum(1).max()) for Hv in products)
    Gc2 = max(float(Hv.square().sum(1).max()) for Hv in products) if form == "listing" else G2
    a, size = SHIFT, float(case.v.square().sum())
    C1 = 0.75 * a**3 * D2
    shrinks = 1 - (1 - tau / 2) * (1 + 1 / a) ** 2
    C2 = 384 * (2 * CONDITION + MU) * Gc2 / (MU**3 * tau * shrinks)
    return [(C1 / n**3 + C2 / n**2 + 12 * (n + 2 * a) * G2 / (MU * n) ** 2) / size for n in at]


def _check(found: dict[str, Any], system: System) -> Check:
    claimed = found["compressor"] == "topk" or system.heavy
    name = f"{found['compressor']}, {FORMS[found['form']]}, {found['system']}"
    fell, worst, limit = found["slope"]["mean"], found["highest"], found["bound"]
    holds = (
        fell < -1.0 + MARGIN
        and all(e <= b for e, b in zip(worst, limit, strict=True))
        and found["apart"] > APART
    )
    first, last = found["median"][0], found["median"][-1]
    theory = f"I^-1, {limit[-1]:.1e} at the end" if claimed else "nothing: e has no heavy hitters"
    fit = f"I^{fell:.2f} ± {found['slope']['deviation']:.2f}" if math.isfinite(fell) else "diverges"
    seen = f"{first:.1e} to {last:.1e}, {fit}; {found['apart']:.0e} from no compression"
    return Check(f"‖v_I − v*‖²: {name}", theory, seen, holds if claimed else None)
