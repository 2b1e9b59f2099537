"""Passes over samples that follow given directions, in chunks that fit the cache.

    product_pass    ∇²_yy g v                       the drawn curvature batch
    sketch_pass     S_2 ∇²_yy g S_1ᵀ                the same
    galerkin_pass   S_1 ∇²_yy g S_1ᵀ                the same, by forward passes only
    cross_pass      ∇²_xy g v, agreement            all samples
    joint_pass      all three                       one pass along v serves them

With Gauss-Newton, J v of a sample gives both its score ⟨∇ℓ_j, v⟩ and the first half of Jᵀ Q J v.
``agreement`` is how far the model agrees with a sample's label; it needs the same outputs.
A pass takes the samples of one client, or those of several as one (``SampleWeighting.pool``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedsift.compress import SparseEmbedding
from fedsift.errors import InputError
from fedsift.hypergradient import CurvatureSettings
from fedsift.hypergradient.non_iterative import Whole
from fedsift.problem import Composite, Problem, SampleWeighting, chunks, cross_product
from fedsift.problem.curvature import CURVATURES, cross_from, output_hessian
from fedsift.problem.protocol import pass_length
from fedsift.problem.tangents import Tangent, along, linearised_outputs, push


@dataclass(frozen=True)
class Cross:
    """∇²_xy g v, and how far the model agrees with each label where the problem can tell.

    ``at`` are the entries of x that were scored; the others are zero. None: all of them.
    """

    value: Tensor
    agreement: Tensor | None
    at: Tensor | None = None

    def with_more(self, other: Cross) -> Cross:
        """Return both, of samples that have none in common."""
        agrees = self.agreement is not None and other.agreement is not None
        agreement = _known(self.agreement) + _known(other.agreement) if agrees else None
        at = None
        if self.at is not None and other.at is not None:
            at = torch.cat([self.at, other.at])
        return Cross(self.value + other.value, agreement, at)


def product_pass(
    problem: Problem, x: Tensor, y: Tensor, batch: Any, v: Tensor, curvature: CurvatureSettings
) -> Tensor:
    """Return the curvature applied to v."""
    make = CURVATURES[curvature.kind].once
    out = torch.zeros_like(v)
    for part in chunks(batch, pass_length(problem, batch)):
        product = make(problem, x, y, part, curvature.damping).product(v)
        out += (len(part) / len(batch)) * product
    return out


def sketch_pass(
    problem: Problem,
    x: Tensor,
    y: Tensor,
    batch: Any,
    S1: SparseEmbedding,
    S2: SparseEmbedding | Whole,
    curvature: CurvatureSettings,
) -> Tensor:
    """Return S_2 (curvature) S_1ᵀ, one column after the other: memory is O(d), not O(r_1 d).

    One column at a time is also the faster way on a CPU: ``vmap`` over a linearised network turns
    into grouped convolutions.
    """
    make = CURVATURES[curvature.kind].repeated
    out = y.new_zeros(S2.rows, S1.rows)
    for part in chunks(batch, pass_length(problem, batch)):
        operator, share = make(problem, x, y, part, curvature.damping), len(part) / len(batch)
        for i in range(S1.rows):
            out[:, i] += share * S2.apply(operator.product(_row(S1, i, y)))
    return out


def galerkin_pass(
    problem: Problem,
    x: Tensor,
    y: Tensor,
    batch: Any,
    S1: SparseEmbedding,
    curvature: CurvatureSettings,
) -> Tensor:
    """Return S_1 H S_1ᵀ = (J S_1ᵀ)ᵀ Q (J S_1ᵀ) + shift · S_1 S_1ᵀ, by forward passes only."""
    if curvature.kind != "gauss-newton" or not isinstance(problem, Composite):
        raise InputError(
            "the system 'galerkin' needs the Gauss-Newton matrix; use curvature 'gauss-newton' or "
            "the system 'least-squares'"
        )
    out = y.new_zeros(S1.rows, S1.rows)
    for part in chunks(batch, pass_length(problem, batch)):
        point, forward = linearised_outputs(problem, y, part)
        Q = output_hessian(problem, x, point, part)
        along_rows = [forward(_row(S1, i, y)) for i in range(S1.rows)]
        weighted = torch.stack([Q(u).flatten() for u in along_rows])
        pushed = torch.stack([u.flatten() for u in along_rows])
        out += (len(part) / len(batch)) * (pushed @ weighted.T)
    shift = problem.l2 + curvature.damping
    counts = S1.apply(S1.transpose_apply(y.new_ones(S1.rows)))  # S_1 S_1ᵀ is diagonal
    return out + shift * torch.diag(counts)


def _row(S: SparseEmbedding, i: int, like: Tensor) -> Tensor:
    """Return Sᵀ e_i."""
    unit = like.new_zeros(S.rows)
    unit[i] = 1.0
    return S.transpose_apply(unit)


def cross_pass(
    problem: Problem,
    x: Tensor,
    y: Tensor,
    batch: Any,
    v: Tensor,
    total: int,
    push_along: Callable[[Composite, Tensor, Any, Tensor], Tangent] = along,
) -> Cross:
    """Return ∇²_xy g v as far as these of ``total`` samples go: the parts of a batch add up."""
    found = _Found(x, isinstance(problem, SampleWeighting))
    for part in chunks(batch, pass_length(problem, batch)):
        if isinstance(problem, Composite):
            found.add(problem, push_along(problem, y, part, v), part, total)
        else:
            found.cross += (len(part) / total) * cross_product(problem, x, y, part, v)
    return found.result()


def joint_pass(
    problem: Problem,
    x: Tensor,
    y: Tensor,
    drawn: Any,
    rest: Any | None,
    v: Tensor,
    curvature: CurvatureSettings,
    total: int | None = None,
) -> tuple[Tensor, Cross]:
    """Return the product over the drawn samples and the cross product over both, of ``total``."""
    total = len(drawn) + (0 if rest is None else len(rest)) if total is None else total
    if curvature.kind == "gauss-newton" and isinstance(problem, Composite):
        found = _Found(x, isinstance(problem, SampleWeighting))
        product = (problem.l2 + curvature.damping) * v
        for part in chunks(drawn, pass_length(problem, drawn)):
            tangent = push(problem, y, part, v)
            weighted = output_hessian(problem, x, tangent.outputs, part)(tangent.along)
            product = product + (len(part) / len(drawn)) * tangent.pull(weighted)
            found.add(problem, tangent, part, total)
        cross = found.result()
    else:
        product = product_pass(problem, x, y, drawn, v, curvature)
        cross = cross_pass(problem, x, y, drawn, v, total)
    if rest is None:
        return product, cross
    return product, cross.with_more(cross_pass(problem, x, y, rest, v, total))


class _Found:
    """Sums over chunks."""

    def __init__(self, x: Tensor, agrees: bool) -> None:
        self.x, self.cross = x, torch.zeros_like(x)
        self.agreement = torch.zeros_like(x) if agrees else None

    def add(self, problem: Composite, tangent: Tangent, part: Any, total: int) -> None:
        self.cross += (len(part) / total) * cross_from(problem, self.x, tangent, part)
        if self.agreement is not None:
            assert isinstance(problem, SampleWeighting)
            self.agreement += problem.agreement(self.x, tangent.outputs, part)

    def result(self) -> Cross:
        return Cross(self.cross, self.agreement)


def _known(value: Tensor | None) -> Tensor:
    assert value is not None
    return value
