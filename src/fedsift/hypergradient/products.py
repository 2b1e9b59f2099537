"""Asking a cohort for products with ∇²_yy G."""

from __future__ import annotations

import json
from collections.abc import Mapping

from torch import Tensor

from fedsift.compress import Identity, Payload
from fedsift.compress.error_feedback import Feedback, NoFeedback
from fedsift.hypergradient.estimate import CurvatureSettings, Point, relative
from fedsift.messages import Action, Cohort, Request


def product_request(
    point: Point,
    arrays: Mapping[str, Payload],
    feedback: Feedback,
    curvature: CurvatureSettings,
) -> Request:
    """Ask for S(∇²_yy g_m v), with a client's error memory if the feedback keeps one there."""
    scalars = {
        **curvature.scalars(),
        "compressor": json.dumps(feedback.compressor.spec()),
        "step": 1.0,
        "fresh": False,
        "iteration": 0,
    }
    return Request(Action.PRODUCT, point.round, arrays, scalars)


def exact_product(cohort: Cohort, point: Point, v: Tensor, curvature: CurvatureSettings) -> Tensor:
    """Return ∇²_yy G v without compression: one exchange."""
    plain = NoFeedback(Identity(len(v)))
    request = product_request(point, {**point.arrays(), "v": v}, plain, curvature)
    return cohort.ask(request).mean("product")


def exact_residual(cohort: Cohort, point: Point, v: Tensor, curvature: CurvatureSettings) -> float:
    """Return ‖∇²_yy G v − ∇_y F‖ / ‖∇_y F‖ at the cost of one dense exchange."""
    product = exact_product(cohort, point, v, curvature)
    return relative(product - point.outer_gradient, point.outer_gradient)
