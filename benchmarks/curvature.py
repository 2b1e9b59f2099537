"""Hessian products on the paper's CNN, in gradients of the same samples."""

from __future__ import annotations

import torch

from benchmarks.timing import ratio, seconds
from fedsift.curvature import CURVATURES
from fedsift.models import build_model
from fedsift.problem import hessian_product
from fedsift.problems import FlatModel, Reweighting, Samples
from fedsift.randomness import generator

SAMPLES = 256


def measure() -> dict[str, float]:
    """Time products of every make against one gradient."""
    source = generator(0, "benchmark")
    model = FlatModel(build_model("paper_cnn", (1, 28, 28), 10, seed=0))
    problem = Reweighting(model)
    inputs = torch.randn(SAMPLES, 1, 28, 28, generator=source)
    batch = Samples.of(inputs, torch.randint(10, (SAMPLES,), generator=source))
    x, y = torch.ones(SAMPLES), model.initial()
    v = torch.randn(len(y), generator=source)

    def gradient() -> None:
        leaf = y.clone().requires_grad_(True)
        torch.autograd.grad(problem.inner_loss(x, leaf, batch), leaf)

    def double_backward() -> None:
        leaf = y.clone().requires_grad_(True)
        loss = problem.inner_loss(x, leaf, batch)
        (first,) = torch.autograd.grad(loss, leaf, create_graph=True)
        torch.autograd.grad(first, leaf, v)

    out: dict[str, float] = {}
    for kind, makes in CURVATURES.items():
        name = kind.replace("-", "_")
        repeated = makes.repeated(problem, x, y, batch, 0.0)
        once = makes.once

        def one(make: object = once) -> None:
            make(problem, x, y, batch, 0.0).product(v)  # type: ignore[operator]

        def many(operator: object = repeated) -> None:
            operator.product(v)  # type: ignore[attr-defined]

        out[f"{name}_repeated_over_gradient"] = ratio(many, gradient)
        out[f"{name}_once_over_gradient"] = ratio(one, gradient)
        out[f"double_backward_over_{name}_repeated"] = ratio(double_backward, many)
        make_time = seconds(lambda m=makes: m.repeated(problem, x, y, batch, 0.0))
        out[f"{name}_making_over_gradient"] = make_time / seconds(gradient)
    out["forward_over_reverse_over_gradient"] = ratio(
        lambda: hessian_product(problem, x, y, batch, v), gradient
    )
    out["repeated_product_over_gradient"] = out["hessian_repeated_over_gradient"]
    out["double_backward_over_repeated_product"] = out["double_backward_over_hessian_repeated"]
    return out
