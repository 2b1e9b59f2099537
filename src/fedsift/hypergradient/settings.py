"""A row of the table of estimators, and the keys that several of them read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from fedsift.compress import Feedback
from fedsift.hypergradient.estimate import CurvatureSettings, Estimator
from fedsift.keys import Auto, BuildContext, Keys, Settings, key, number
from fedsift.problem.curvature import CURVATURES


@dataclass(frozen=True)
class EstimatorRow:
    """One estimator: what it is, which keys it reads, how it is built from them.

    ``means_only``: of the clients' replies it needs no more than N_m-weighted means. ``asks``: what
    it asks between the local steps and the outer step (``algorithms/sequence.py``).
    """

    text: str
    groups: tuple[type[Keys], ...]
    build: Callable[[Settings, BuildContext], Estimator]
    means_only: bool = True
    asks: str = "product"


@dataclass(frozen=True)
class StepKeys(Keys):
    """The step of the solver."""

    table: ClassVar[str] = "solver"
    solver_lr: Auto = key(
        "auto",
        "solver step size α; auto: the inner step's, n / (n + d) of it for a sketch of n numbers",
        low=0,
        open_low=True,
    )


@dataclass(frozen=True)
class MatrixKeys(Keys):
    """The matrix of the system that v solves."""

    table: ClassVar[str] = "solver"
    curvature: str = key(
        "gauss-newton", "matrix of the linear system", choices=lambda: tuple(CURVATURES)
    )
    damping: Auto = key(
        "auto", "added to the diagonal of the matrix; auto: 0.05 over the inner step", low=0
    )


@dataclass(frozen=True)
class CurvatureKeys(MatrixKeys):
    """The same, with samples of its own."""

    curvature_batch: int = key(
        128,
        "samples that a client draws per round for its products with the matrix, single-loop at "
        "most its first local batch; 0: all",
        low=0,
    )


@dataclass(frozen=True)
class ResidualKeys(Keys):
    """Whether the residual is measured."""

    table: ClassVar[str] = "solver"
    check_residual: bool = key(
        False, "measure the residual exactly, by one more exchange without compression per round"
    )


def step_of(settings: Settings, context: BuildContext, feedback: Feedback) -> float:
    """Return α: the user's, or the share of the found one that is stable with this compression."""
    step = number(settings[StepKeys].solver_lr)
    return step * feedback.step_share if "solver_lr" in context.found else step


def curvature_of(settings: Settings) -> CurvatureSettings:
    """Return the matrix that the keys describe."""
    own = settings[CurvatureKeys]
    return CurvatureSettings(own.curvature, number(own.damping), own.curvature_batch)
