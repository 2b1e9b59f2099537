"""Beyond the paper: v as a sum of directions, one product along each.

    v = Σ_i α_i p_i,      r_i+1 = r_i − α_i U(S(∇²_yy G p_i)),      r_0 = p_0 = ∇_y F

| row       | α_i                | p_i+1         | uncompressed, it is              |
|-----------|--------------------|---------------|----------------------------------|
| `cg`      | r_iᵀr_i / p_iᵀHp_i | r_i+1 + β p_i | exact after d products           |
| `neumann` | α                  | r_i+1         | off by (1 − αμ)^i after i        |

β = max(0, r_i+1ᵀ(r_i+1 − r_i) / r_iᵀr_i)

Polak-Ribière's β forgives inexact products. The Neumann series is
Algorithm 2 without error feedback, written so that what is compressed shrinks with r_i. p_iᵀHp_i
comes uncompressed, one number per client.

The residual of v needs no exchange of its own: every reply has an independent sketch of Hp_i
(``residual.py``), and that of Hv is their sum with weights α_i.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from fedsift.compress import (
    Compressor,
    CompressorKeys,
    Feedback,
    Identity,
    Payload,
    RateKeys,
    compressor_groups,
    feedback_for,
    make_compressor,
)
from fedsift.hypergradient.estimate import CurvatureSettings, Estimate, Point, SolverState
from fedsift.hypergradient.products import Compression, exact_residual, product_request
from fedsift.hypergradient.residual import Judge, Witness
from fedsift.hypergradient.settings import (
    CurvatureKeys,
    EstimatorRow,
    ResidualKeys,
    StepKeys,
    curvature_of,
)
from fedsift.hypergradient.solver_step import NEGATIVE
from fedsift.keys import BuildContext, Keys, Settings, key, number
from fedsift.messages import Answers, Cohort
from fedsift.randomness import derive


class Term(NamedTuple):
    """Where the series is: the residual r_i and the direction p_i."""

    r: Tensor
    p: Tensor


class Rule(Protocol):
    """How the series goes on."""

    def __call__(self, term: Term, product: Tensor, curvature: float) -> tuple[float, Term]:
        """Return α_i and the next term, by Hp_i and p_iᵀHp_i."""
        ...


@dataclass(frozen=True)
class Conjugate:
    """Conjugate gradients."""

    def __call__(self, term: Term, product: Tensor, curvature: float) -> tuple[float, Term]:
        """Return α_i and the next term."""
        size = float(term.r @ term.r)
        step = size / curvature
        r = term.r - step * product
        beta = max(0.0, float(r @ (r - term.r)) / size)
        return step, Term(r, r + beta * term.p)


@dataclass(frozen=True)
class Neumann:
    """The Neumann series with step α."""

    step: float

    def __call__(self, term: Term, product: Tensor, curvature: float) -> tuple[float, Term]:  # noqa: ARG002
        """Return α and the next term."""
        r = term.r - self.step * product
        return self.step, Term(r, r)


@dataclass(frozen=True)
class Series:
    """v as a sum of I directions, from v = 0 in every round.

    Attributes:
        compressor: S and U of the products.
        rule: ``Conjugate()``, or ``Neumann(step)``.
        iterations: I.
        curvature: Which matrix is used.
        check_residual: Whether the residual is measured exactly, by one more exchange.
        seed: Of the independent sketch that measures the residual.
    """

    compressor: Compressor
    rule: Rule = Conjugate()
    iterations: int = 10
    curvature: CurvatureSettings = CurvatureSettings()
    check_residual: bool = False
    seed: int = 0

    def estimate(
        self, cohort: Cohort, point: Point, state: SolverState
    ) -> tuple[Estimate, SolverState]:
        """Add one direction per exchange."""
        b, damping = point.outer_gradient, self.curvature.damping
        witness = Witness(derive(self.seed, point.round, "residual"), damping)
        judge = Judge.of(witness, b)
        v, seen, term = torch.zeros_like(b), torch.zeros_like(judge.B), Term(b, b)
        events, advice, done = list[str](), None, 0
        for i in range(self.iterations):
            if not bool(term.r.any()):
                break
            answers = self._ask(cohort, point, term.p, witness, i)
            events += answers.events
            product = self._mean(answers) + damping * term.p
            curvature = answers.mean_scalar("curvature") + damping * float(term.p @ term.p)
            if not curvature > 0.0:
                advice = NEGATIVE
                break
            p, (step, term) = term.p, self.rule(term, product, curvature)
            v, seen, done = v + step * p, seen + step * judge.product(answers), i + 1
        measured = judge.measured(seen)
        v, residual = measured.scale * v, measured.least
        if self.check_residual:
            residual = exact_residual(cohort, point, v, self.curvature)
        estimate = Estimate(
            v=v,
            residual=residual,
            residual_is_exact=self.check_residual,
            iterations=done,
            direction_arrays={**point.arrays(done > 0), "v": v},
            usable=bool(v.any()),
            advice=advice,
            events=tuple(events) if advice is None else (*events, advice),
        )
        return estimate, replace(state, v=v)

    def _ask(self, cohort: Cohort, point: Point, p: Tensor, witness: Witness, i: int) -> Answers:
        arrays: dict[str, Payload] = {**point.arrays(i > 0), "v": p}
        # A system of its own each time: what was left out belongs to another direction.
        epoch = point.round * self.iterations + i
        compression = Compression.by(self._feedback, epoch=epoch, fresh=True)
        bare = replace(self.curvature, damping=0.0)
        return cohort.ask(product_request(point, arrays, compression, bare, witness))

    def _mean(self, answers: Answers) -> Tensor:
        return self._feedback.server(answers.payloads("product"), answers.shares, 1.0, None)[0]

    @property
    def _feedback(self) -> Feedback:
        return feedback_for(self.compressor)


@dataclass(frozen=True)
class SeriesKeys(Keys):
    """The length of the series."""

    table: ClassVar[str] = "solver"
    terms: int = key(10, "directions that v is made of, one product each per round", low=1)


def _compressor(settings: Settings, context: BuildContext) -> Compressor:
    name = settings[CompressorKeys].compressor
    if name == "auto":
        return Identity(context.length)
    return make_compressor(name, settings, context)


def build_conjugate(settings: Settings, context: BuildContext) -> Series:
    """Build conjugate gradients from their keys."""
    return _with(Conjugate(), settings, context)


def build_neumann(settings: Settings, context: BuildContext) -> Series:
    """Build the Neumann series from its keys."""
    return _with(Neumann(number(settings[StepKeys].solver_lr)), settings, context)


def _with(rule: Rule, settings: Settings, context: BuildContext) -> Series:
    return Series(
        _compressor(settings, context),
        rule,
        settings[SeriesKeys].terms,
        curvature_of(settings),
        settings[ResidualKeys].check_residual,
        context.seed,
    )


_GROUPS = (SeriesKeys, CurvatureKeys, ResidualKeys, CompressorKeys)
_COMPRESSION: tuple[type[Keys], ...] = tuple(dict.fromkeys((RateKeys, *compressor_groups())))
CG = EstimatorRow(
    "beyond the paper: conjugate gradients, uncompressed unless a compressor is named",
    (*_GROUPS, *_COMPRESSION),
    build_conjugate,
    asks="product*",
)
NEUMANN = EstimatorRow(
    "beyond the paper: the Neumann series, uncompressed unless a compressor is named",
    (*_GROUPS, StepKeys, *_COMPRESSION),
    build_neumann,
    asks="product*",
)
