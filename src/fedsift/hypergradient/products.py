"""Asking a cohort for products with ∇²_yy G."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from fedsift.compress import Feedback, Identity, NoFeedback, feedback_for, from_spec
from fedsift.errors import InputError
from fedsift.hypergradient.estimate import CurvatureSettings, Point, relative
from fedsift.hypergradient.residual import Witness
from fedsift.messages import Cohort, Request, Scalar, Sendable, scalar, scalars_of


@dataclass(frozen=True)
class Compression:
    """How a client compresses its product.

    ``compressor`` is its spec as JSON, ``form`` that of the error feedback, ``step`` the solver's
    α. A memory that the client has kept belongs to an ``epoch``: one of another is dropped. So
    clients that were not asked for a while never use what belongs to a system that was given up.
    ``fresh``: v was 0 one iteration before (see ``Feedback.client``).
    """

    compressor: str
    form: str = scalar("feedback", default="listing")
    step: float = 1.0
    epoch: int = 0
    fresh: bool = False

    @classmethod
    def by(
        cls, feedback: Feedback, step: float = 1.0, *, epoch: int = 0, fresh: bool = False
    ) -> Compression:
        """Describe the compressor of a feedback."""
        return cls(json.dumps(feedback.compressor.spec()), feedback.form, step, epoch, fresh)

    @property
    def feedback(self) -> Feedback:
        """The compressor with its error feedback."""
        try:
            spec = json.loads(self.compressor)
        except ValueError:
            spec = None
        if not isinstance(spec, dict):
            raise InputError("the compressor of a request is not described in JSON")
        return feedback_for(from_spec(spec), self.form)


def product_request(
    point: Point,
    arrays: Mapping[str, Sendable],
    compression: Compression,
    curvature: CurvatureSettings,
    witness: Witness,
) -> Request:
    """Ask for S(∇²_yy g_m v), with a client's error memory if the feedback keeps one there."""
    return Request("product", point.round, arrays, scalars_of(curvature, compression, witness))


def measure_request(
    point: Point,
    arrays: Mapping[str, Sendable],
    curvature: CurvatureSettings,
    witness: Witness,
    scalars: Mapping[str, Scalar] | None = None,
) -> Request:
    """Ask for the witness's sketch of ∇²_yy g_m v alone; it changes nothing at a client."""
    bare = replace(curvature, damping=0.0)  # the witness adds it
    known = {**(scalars or {}), **scalars_of(bare, witness)}
    return Request("measure", point.round, {**point.arrays(), **arrays}, known)


def exact_product(cohort: Cohort, point: Point, v: Tensor, curvature: CurvatureSettings) -> Tensor:
    """Return ∇²_yy G v without compression: one exchange."""
    plain, witness = Compression.by(NoFeedback(Identity(len(v)))), Witness(0)  # not looked at
    request = product_request(point, {**point.arrays(), "v": v}, plain, curvature, witness)
    return cohort.ask(request).mean("product")


def exact_residual(cohort: Cohort, point: Point, v: Tensor, curvature: CurvatureSettings) -> float:
    """Return ‖∇²_yy G v − ∇_y F‖ / ‖∇_y F‖ at the cost of one dense exchange."""
    product = exact_product(cohort, point, v, curvature)
    return relative(product - point.outer_gradient, point.outer_gradient)
